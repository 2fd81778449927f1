"""ERRORS, SSE, KEYS: whatever an upstream answers, in every place where the shim asks it something."""

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient, ModernClient, Reply
from tests.scripted import Broken, Raw, Scripted, Seen, task, text, tool
from tests.shim import config_for

DEEP = 100_000
FRAME = 1_000_000
ALICE = {"Authorization": "Bearer alice"}
SSE = {"Content-Type": "text/event-stream"}
GZIP = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
JSON = b"Content-Type: application/json\r\n"


@pytest.fixture
async def app(upstream: Scripted, tmp_path: Path) -> AsyncIterator[App]:
    upstream.on("tools/list", {"tools": [tool("run", "optional"), tool("plain", "forbidden")]})
    limits = {"body_bytes": FRAME, "frame_bytes": FRAME}
    sections: dict[str, Any] = {"limits": limits, "tasks": {"lost_confirm_ms": 0}}
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, **sections)
    async with running(config) as app:
        yield app


@pytest.fixture
async def client(app: App) -> AsyncIterator[ModernClient]:
    async with ModernClient(app.url, headers=ALICE) as client:
        yield client


@pytest.fixture
async def legacy(app: App) -> AsyncIterator[LegacyClient]:
    async with LegacyClient(app.url, headers=ALICE) as client:
        await client.initialize()
        yield client


@pytest.fixture(autouse=True)
def _no_stray_exception(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> Any:
    yield
    said = capsys.readouterr()
    for fault in (
        "a request failed",
        "ledger cannot be used",
        "Traceback",
        "background work failed",
        "never retrieved",
    ):
        assert fault not in said.out + said.err + caplog.text


def result(raw: bytes) -> Callable[[Seen], Raw]:
    """A result of these very bytes, as JSON."""
    return lambda seen: Raw(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(seen.id).encode(), raw))


def framed(raw: bytes) -> Callable[[Seen], Raw]:
    """The same in a stream."""
    whole = b'data: {"jsonrpc":"2.0","id":%b,"result":%b}\n\n'
    return lambda seen: Raw(whole % (json.dumps(seen.id).encode(), raw), 200, SSE)


def length(announced: int, body: bytes = b'{"jsonrpc":') -> Broken:
    return Broken(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (JSON, announced, body))


ODD: dict[str, Any] = {
    "deep array": result(b'{"content":[],"x":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "deep object": result(b'{"content":[],"x":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}"),
    "deep in a stream": framed(b'{"content":[],"x":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "not UTF-8": result(b'{"content":[],"x":"\xff\xfe"}'),
    "not UTF-8 in a stream": framed(b'{"content":[],"x":"\xff\xfe"}'),
    "half a surrogate in bytes": result(b'{"content":[],"x":"\xed\xa0\x80"}'),
    "NaN": result(b'{"content":[],"x":NaN}'),
    "Infinity in a stream": framed(b'{"content":[],"x":[-Infinity]}'),
    "a list for a result": result(b"[]"),
    "null for a result": result(b"null"),
    "both": Raw(b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}'),
    "an error that is text": Raw(b'{"jsonrpc":"2.0","id":1,"error":"no"}'),
    "another id": Raw(b'{"jsonrpc":"2.0","id":"not-yours","result":{"content":[]}}'),
    "the id as a number": Raw(b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'),
    "another id in a stream": Raw(b'data: {"jsonrpc":"2.0","id":"x","result":{"content":[]}}\n\n', 200, SSE),
    "a batch": Raw(b'[{"jsonrpc":"2.0","id":1,"result":{}}]'),
    "a request for an answer": Raw(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'),
    "HTML": Raw(b"<html>", 200, {"Content-Type": "text/html"}),
    "HTML that says JSON": Raw(b"<html>"),
    "no media type": Raw(b'{"jsonrpc":"2.0","id":1,"result":{}}', 200, {}),
    "text": Raw(b'{"jsonrpc":"2.0","id":1,"result":{}}', 200, {"Content-Type": "text/plain"}),
    "nothing": Raw(b""),
    "204": Raw(b"", 204, {}),
    "202": Raw(b"", 202, {}),
    "a redirect": Raw(b"", 307, {"Location": "/elsewhere"}),
    "a redirect with a body": Raw(b"<a>", 302, {"Location": "/elsewhere", "Content-Type": "text/html"}),
    "304": Raw(b"", 304, {}),
    "500": Raw(b"oops", 500, {"Content-Type": "text/plain"}),
    "503": Raw(b'{"error":"down"}', 503),
    "429": Raw(b"slow down", 429, {"Content-Type": "text/plain", "Retry-After": "7"}),
    "closed": Broken(),
    "no HTTP": Broken(b"SSH-2.0-x\r\n"),
    "a bad header": Broken(b"HTTP/1.1 200 OK\r\nX: a\x01b\r\n\r\n"),
    "a long header": Broken(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"),
    "many headers": Broken(b"HTTP/1.1 200 OK\r\n" + b"X-Y: 1\r\n" * 5_000 + b"\r\n"),
    "a length too long": length(99),
    "a length too short": length(3),
    "a negative length": length(-1),
    "a length that is no number": Broken(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}"),
    "a chunk too short": Broken(
        b"HTTP/1.1 200 OK\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{}\r\n0\r\n\r\n"
    ),
    "a chunk that is no number": Broken(
        b"HTTP/1.1 200 OK\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"
    ),
    "gzip unasked": Raw(
        b"\x1f\x8b\x08garbage", 200, {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    ),
    "gzip of a good answer": lambda seen: Raw(
        gzip.compress(b'{"jsonrpc":"2.0","id":%b,"result":{"content":[]}}' % json.dumps(seen.id).encode()),
        200, GZIP,
    ),
    "gzip of more than may come": Raw(gzip.compress(b" " * 64 * FRAME), 200, GZIP),
    "too large": Raw(b'{"a":"' + b"x" * FRAME + b'"}'),
    "too large in a stream": Raw(b"data: " + b"x" * (FRAME + 1) + b"\n\n", 200, SSE),
    "too large without an end": Raw(b"data: " + b"x" * (FRAME + 1), 200, SSE),
    "many lines of one frame": Raw(b"data: x\n" * (FRAME // 8 + 1) + b"\n", 200, SSE),
    "an empty stream": Raw(b"", 200, SSE),
    "only comments": Raw(b": hi\n\n" * 100, 200, SSE),
    "garbage in a stream": Raw(b"data: {]\n\n", 200, SSE),
    "NUL bytes": Raw(b"\0" * 100, 200, SSE),
    "half a frame": Raw(b'data: {"jsonrpc":"2.0"', 200, SSE),
}  # fmt: skip

Ask = Callable[[Scripted, ModernClient, Any], Awaitable[Reply]]


def calls(name: str) -> Ask:
    async def ask(upstream: Scripted, client: ModernClient, answer: Any) -> Reply:
        upstream.on("tools/call", answer)
        return await client.call(name)

    return ask


async def lists(upstream: Scripted, client: ModernClient, answer: Any) -> Reply:
    upstream.on("tools/list", answer)
    return await client.request("tools/list", {})


async def opens(upstream: Scripted, client: ModernClient, answer: Any) -> Reply:
    upstream.on("initialize", answer)
    return await client.request("server/discover", {})


ASKS: dict[str, Ask] = {"task": calls("run"), "plain": calls("plain"), "list": lists, "initialize": opens}


@pytest.mark.rule("ERRORS", "HUB-5", "SSE", "VALIDATE")
@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("case", ODD)
async def test_a_modern_client_gets_the_defined_error(
    upstream: Scripted, client: ModernClient, case: str, ask: str
) -> None:
    reply = await ASKS[ask](upstream, client, ODD[case])
    assert reply.error["code"] == -32603, reply.body
    assert reply.status in {200, 502, 504}
    assert not [one for one in upstream.requests if one.path == "/elsewhere"]
    if ask == "initialize":
        upstream.on("initialize", upstream.initialize)
    upstream.on("tools/list", {"tools": [tool("run", "optional"), tool("plain", "forbidden")]})
    upstream.on("tools/call", text("fine"))
    assert (await client.call("plain")).result["content"][0]["text"] == "fine"


@pytest.mark.rule("ERRORS", "LL-1", "SSE")
@pytest.mark.parametrize("task_too", [True, False])
@pytest.mark.parametrize("case", ODD)
async def test_a_legacy_client_is_never_told_of_a_fault_of_the_shims(
    upstream: Scripted, legacy: LegacyClient, case: str, *, task_too: bool
) -> None:
    upstream.on("tools/call", ODD[case])
    try:
        reply = await legacy.call("run", **({"task": {}} if task_too else {}))
    except Exception as exc:  # noqa: BLE001 - a stream that was passing can only be cut
        assert "too large" in case or "many lines" in case, exc  # noqa: PT017
    else:
        assert b"internal error of the shim" not in reply.body
    upstream.on("tools/call", text("fine"))
    assert (await legacy.call("run")).result["content"][0]["text"] == "fine"


@pytest.mark.rule("ERRORS", "HUB-4", "ML-TERMINAL")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
@pytest.mark.parametrize("case", ODD)
async def test_no_task_is_lost_by_it(
    upstream: Scripted, client: ModernClient, case: str, method: str
) -> None:
    upstream.on("tools/call", {"task": task("task-1")})
    await client.call("run")
    upstream.on("tasks/get", task("task-1", "completed"))
    upstream.on("tasks/result", text("done"))
    upstream.on("tasks/cancel", task("task-1"))
    upstream.on(method, ODD[case])
    for verb in ("get", "cancel", "get"):
        reply = await client.tasks(verb, "task-1")
        assert reply.status in {200, 502, 504}
        assert b"internal error of the shim" not in reply.body
        assert "error" not in reply.json or reply.error["code"] == -32603, reply.body
    upstream.on("tasks/get", task("task-1", "completed"))
    upstream.on("tasks/result", text("done"))
    status = "working"
    while status == "working":
        seen = (await client.tasks("get", "task-1")).result
        status = seen["status"]
    assert (status, seen["result"]["content"]) == ("completed", text("done")["content"])
