"""OWN-STORE: what clients and servers keep secret stands in no file of the shim's, in no spelling."""

import asyncio
import base64
import hashlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.client import LegacyClient, ModernClient
from tests.corners.ml import accept, elicit
from tests.scripted import Broken, Error, Raw, Scripted, task, text, tool

TOKENS = ("tok-alice-8c1f0a", "tok-bob-77e2b1", "tok-cut-0d9e55", "key-of-carol-5a5a90")
ARGUMENT, RESULT, ANSWER, ASKED = "arg-f00d41", "res-beef92", "ans-cafe13", "ask-dead77"
HEADER, COOKIE, SECRET = "hdr-4b1d00", "cky-9a9a11", "srv-13371e"
LOGGED_NOWHERE = (*TOKENS, ARGUMENT, RESULT, ANSWER, ASKED, HEADER, COOKIE, SECRET)
KEPT_NOWHERE = (*TOKENS, ARGUMENT, HEADER, COOKIE, SECRET)


def spellings(secret: str) -> Iterator[bytes]:
    """A secret as it is, and what anyone who has a copy could search for."""
    raw = secret.encode()
    for form in (raw, b"Bearer " + raw):
        yield form
        yield base64.b64encode(form)[:-4]  # the last letters depend on what follows
        for name in ("md5", "sha1", "sha256", "sha512"):
            digest = hashlib.new(name, form).digest()
            yield digest
            yield digest.hex().encode()
            yield base64.b64encode(digest).rstrip(b"=")


@asynccontextmanager
async def serving(upstream: Scripted, folder: Path) -> AsyncIterator[str]:
    """The shim as its operator runs it, at the most talkative level; its log goes to a file."""
    config = folder / "shim.toml"
    config.write_text(
        f'[[upstream]]\nurl = "{upstream.url}"\ndialect = "experimental"\nforward_headers = ["X-Site"]\n'
        f'headers = {{ "X-Service" = "{SECRET}" }}\n'
        f'[listen]\nport = 0\n[admin]\nenabled = false\n[log]\nlevel = "debug"\nformat = "json"\n'
        f'[ledger]\npath = "{folder}/state/ledger.db"\n[audit]\npath = "{folder}/state/audit.jsonl"\n'
        f'[identity]\nsources = ["api_key", "token"]\nkey_file = "{folder}/state/shim.key"\n'
        f'[identity.api_key]\nkeys = {{ carol = "{TOKENS[3]}" }}\n'
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-X", "dev", "-m", "shim.cli.main", "serve", "--config", str(config),
        stderr=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONASYNCIODEBUG": "0"},
    )  # fmt: skip
    assert process.stderr is not None
    lines: list[bytes] = []
    while not lines or b'"serving"' not in lines[-1]:
        lines.append(await process.stderr.readline())
        assert lines[-1], b"".join(lines).decode()
    url = str(json.loads(lines[-1])["url"])
    rest = asyncio.create_task(process.stderr.read())
    try:
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
        (folder / "state" / "operator.log").write_bytes(b"".join(lines) + await rest)


async def raw_exchange(url: str, sent: bytes) -> bytes:
    """Send bytes and read until the other side closes."""
    reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    writer.write(sent)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


def bearer(token: str) -> dict[str, str | None]:
    return {"Authorization": f"Bearer {token}", "X-Site": HEADER, "X-Else": HEADER, "Cookie": f"c={COOKIE}"}


FAILURES: list[Any] = [
    Error(-32000, "no", data={"echo": RESULT}),
    Raw(f"<html>{RESULT}</html>", 500, {"Content-Type": "text/html"}),
    Raw(f'{{"jsonrpc":"2.0","id":1,"result":"{RESULT}"'),
    Raw(f'{{"jsonrpc":"2.0","id":1,"result":{{"{RESULT}":NaN}}}}'),
    Raw(f'data: {{"{RESULT}\n\n', 200, {"Content-Type": "text/event-stream"}),
    Raw(b"", 401, {"WWW-Authenticate": f'Bearer error="{SECRET}"'}),
    Broken(f"HTTP/1.1 200 OK\r\nX-Bad: \x01{RESULT}\r\n\r\n".encode()),
    Broken(f"{RESULT}\r\n\r\n".encode()),
    {"task": task("task-odd", status="no-such-state", extra=RESULT)},
]


async def everything(upstream: Scripted, url: str) -> None:
    """Each way a secret travels, the broken ones included."""
    upstream.on("tools/list", {"tools": [tool("run", "optional"), tool("plain", "forbidden")]})
    async with ModernClient(url, headers=bearer(TOKENS[0])) as client:
        upstream.once("tools/call", {"task": task("task-1")})
        made = await client.call("run", {"a": ARGUMENT}, headers={"Idempotency-Key": "k-1"})
        task_id = made.result["taskId"]
        upstream.on("tasks/get", task("task-1", "input_required"))
        pending = upstream.stream("tasks/result")
        first = asyncio.create_task(client.tasks("get", task_id))
        await pending.send(elicit("q-1", "task-1", ASKED))
        await first
        [key] = (await client.tasks("get", task_id)).result["inputRequests"]
        await client.tasks("update", task_id, inputResponses={key: accept(v=ANSWER)})
        await upstream.response_to("q-1")
        await pending.result(text(RESULT))
        upstream.on("tasks/get", task("task-1", "completed"))
        upstream.on("tasks/result", text(RESULT))
        status = "working"
        while status != "completed":
            status = (await client.tasks("get", task_id)).result["status"]
        await client.tasks("cancel", task_id)
        for answer in FAILURES:
            for name in ("run", "plain"):
                upstream.once("tools/call", answer)
                await client.call(name, {"a": ARGUMENT})
        for body in (f'{{"{ARGUMENT}":', f'{{"{ARGUMENT}":1,"{ARGUMENT}":2}}', f'{{"params":"{ARGUMENT}"}}'):
            await client.send(body.encode(), headers=client.headers)
    async with LegacyClient(url, headers=bearer(TOKENS[1])) as legacy:
        await legacy.initialize()
        upstream.once("tools/call", {"task": task("task-2")}, text(RESULT), *FAILURES)
        await legacy.call("run", {"a": ARGUMENT}, task={})
        for _ in range(len(FAILURES) + 1):
            await legacy.call("run", {"a": ARGUMENT})
        await legacy.tasks("get", task_id)
    async with ModernClient(url, headers={"X-Api-Key": TOKENS[3]}) as keyed:
        await keyed.request("tools/list", {})
        await keyed.request("tools/list", {}, headers={"X-Api-Key": TOKENS[2]})
        await keyed.request("tools/list", {}, headers={"X-Api-Key": None})
    for odd in (b"\x01", b"\xff", b"\r\nX : y", b"\r\n\x00"):
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKENS[2]}".encode()
        tail = f'\r\nContent-Length: 99\r\n\r\n{{"a":"{ARGUMENT}"}}'.encode()
        await raw_exchange(url, head + odd + tail)


@pytest.mark.rule("OWN-STORE")
async def test_secrets_stand_in_no_file(upstream: Scripted, tmp_path: Path) -> None:
    async with serving(upstream, tmp_path) as url:
        await everything(upstream, url)
        ledger_alive = {path.name: path.read_bytes() for path in (tmp_path / "state").glob("ledger.db*")}
    files = {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()}
    assert {"audit.jsonl", "operator.log", "shim.key", "ledger.db"} <= files.keys()
    assert b"task-1" in files["audit.jsonl"]
    assert any(b"task-1" in content for content in ledger_alive.values())
    assert any(
        RESULT.encode() in content for content in ledger_alive.values()
    )  # the search finds what is there
    for name, content in [*files.items(), *ledger_alive.items()]:
        secrets = KEPT_NOWHERE if name.startswith("ledger") else LOGGED_NOWHERE
        for secret in secrets:
            for spelling in spellings(secret):
                assert spelling not in content, (name, secret, content[content.find(spelling) - 300 :][:600])
    assert b"a request was refused that is no HTTP" in files["operator.log"]
    assert b"Traceback" not in files["operator.log"], files["operator.log"].decode()
