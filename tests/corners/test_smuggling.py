"""What one reader takes for one request and another for two: refused, or read in one way (VALIDATE).

A proxy in front may read a request's length otherwise than the shim; what it takes for the rest of one
client's body would be another client's request. Where two readings are possible the connection ends.
"""

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from shim.app import App, running
from tests.client import ModernClient
from tests.corners.raw import post, wire
from tests.corners.test_bad_wire import modern
from tests.scripted import Broken, Scripted, text, tool
from tests.shim import config_for

pytestmark = pytest.mark.rule("VALIDATE")

SECRET = b"Bearer of-another-client"


@pytest.fixture
async def app(upstream: Scripted, tmp_path: Path) -> AsyncIterator[App]:
    upstream.on("tools/list", {"tools": [tool("plain", "forbidden")]})
    upstream.on("tools/call", text("fine"))
    async with running(config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})) as app:
        yield app


def request_of(
    url: str, *lines: bytes, head: bytes = b"POST /mcp HTTP/1.1", body: bytes | None = None
) -> bytes:
    """A call with further header lines, which have to tell its length."""
    whole, mirrored = modern(ModernClient(url), name="plain")
    every = (head, b"Host: localhost", b"Content-Type: application/json", *mirrored, *lines)
    return b"\r\n".join(every) + b"\r\n\r\n" + (whole if body is None else body)


def chunked(url: str, size: bytes = b"%x", end: bytes = b"\r\n") -> bytes:
    whole, _ = modern(ModernClient(url), name="plain")
    return (size % len(whole)) + end + whole + b"\r\n0\r\n\r\n"


def length(url: str) -> bytes:
    return b"Content-Length: %d" % len(modern(ModernClient(url), name="plain")[0])


CHUNKED = b"Transfer-Encoding: chunked"
TWO_WAYS = {
    "length and chunks": lambda at: request_of(at, length(at), CHUNKED, body=chunked(at)),
    "chunks and length": lambda at: request_of(at, CHUNKED, length(at), body=chunked(at)),
    "two lengths": lambda at: request_of(at, length(at), b"Content-Length: 3"),
    "two lengths alike": lambda at: request_of(at, length(at), length(at)),
    "a list of lengths": lambda at: request_of(at, length(at) + b", 3"),
    "a length with a sign": lambda at: request_of(at, length(at).replace(b": ", b": +")),
    "a negative length": lambda at: request_of(at, b"Content-Length: -1"),
    "a length with a line": lambda at: request_of(at, b"Content-Length: 1_0"),
    "a length of other digits": lambda at: request_of(at, "Content-Length: ²".encode()),
    "chunks at last but one": lambda at: request_of(at, CHUNKED + b", identity", body=chunked(at)),
    "chunks twice": lambda at: request_of(at, CHUNKED + b", chunked", body=chunked(at)),
    "two codings": lambda at: request_of(at, CHUNKED, b"Transfer-Encoding: identity", body=chunked(at)),
    "a coding nobody knows": lambda at: request_of(at, b"Transfer-Encoding: xchunked", body=chunked(at)),
    "a blank before the colon": lambda at: request_of(at, b"Transfer-Encoding : chunked", body=chunked(at)),
    "a value below": lambda at: request_of(at, b"Transfer-Encoding:\r\n chunked", body=chunked(at)),
    "a folded header": lambda at: request_of(at, length(at), b"X-A: b\r\n c"),
    "a bare LF in the head": lambda at: request_of(at, length(at), b"X-A: b\nX-B: c"),
    "a bare CR in the head": lambda at: request_of(at, length(at), b"X-A: b\rX-B: c"),
    "bare LFs only": lambda at: request_of(at, length(at)).replace(b"\r\n", b"\n"),
    "a bare LF after a size": lambda at: request_of(at, CHUNKED, body=chunked(at, end=b"\n")),
    "a bare LF after an extension": lambda at: request_of(at, CHUNKED, body=chunked(at, b"%x;a=b", b"\n")),
    "a size as in C": lambda at: request_of(at, CHUNKED, body=chunked(at, b"0x%x")),
    "a size with a sign": lambda at: request_of(at, CHUNKED, body=chunked(at, b"+%x")),
    "a size and a blank": lambda at: request_of(at, CHUNKED, body=chunked(at, b"%x ")),
    "a size beyond all": lambda at: request_of(at, CHUNKED, body=chunked(at, b"f" * 18 + b"%x")),
    "two hosts": lambda at: request_of(at, length(at), b"Host: localhost"),
    "no HTTP/1": lambda at: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + request_of(at, length(at)),
}  # fmt: skip


@pytest.mark.parametrize("case", TWO_WAYS)
async def test_a_request_that_can_be_read_in_two_ways_is_refused(
    upstream: Scripted, app: App, case: str
) -> None:
    async with wire(app.url) as raw:
        await raw.send(TWO_WAYS[case](app.url) + request_of(app.url, length(app.url)))
        said = await raw.reader.read()  # to the end: what comes behind it on the connection is not read
    assert said.startswith(b"HTTP/1.0 400 "), said
    assert said.count(b"HTTP/1.") == 1
    assert upstream.seen("tools/call") == []


@pytest.mark.parametrize("case", ["chunks", "an extension", "a trailer"])
async def test_chunks_are_the_last_request_of_their_connection(
    upstream: Scripted, app: App, case: str
) -> None:
    """Their trailer is no header of the next one, which may be another client's."""
    body = chunked(app.url, b"%x;a=b" if case == "an extension" else b"%x")
    if case == "a trailer":
        body = body[:-2] + b"Authorization: " + SECRET + b"\r\n\r\n"
    async with wire(app.url) as raw:
        await raw.send(request_of(app.url, CHUNKED, body=body))
        answer = await raw.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        with contextlib.suppress(ConnectionError):
            await raw.send(request_of(app.url, length(app.url)))
            assert await raw.reader.read() == b""
    async with wire(app.url) as raw:
        await raw.send(request_of(app.url, CHUNKED, body=body) + request_of(app.url, length(app.url)))
        assert (await raw.reader.read()).count(b"HTTP/1.") == 1
    seen = upstream.seen("tools/call")
    assert len(seen) == 2
    for one in seen:  # the server gets a length, and neither chunks nor trailers
        assert "Transfer-Encoding" not in one.headers
        assert one.headers.get("Content-Length") == str(len(one.body))
        assert "Authorization" not in one.headers


async def test_a_whole_address_is_as_good_as_a_path(app: App) -> None:
    async with wire(app.url) as raw:
        head = b"POST http://localhost/mcp HTTP/1.1"
        await raw.send(request_of(app.url, length(app.url), head=head))
        assert (await raw.answer()).status == 200


@pytest.mark.rule("VALIDATE", "OWN-STORE")
@pytest.mark.parametrize("line", [b"Authorization: " + SECRET + b"\x01", b"Bad Name: " + SECRET])
async def test_what_cannot_be_read_is_not_quoted(app: App, line: bytes) -> None:
    """On a connection that several clients share it may be another one's."""
    async with wire(app.url) as raw:
        await raw.send(request_of(app.url, length(app.url), line))
        said = await raw.reader.read()
    assert b" 400 " in said[:20]
    assert SECRET not in said


@pytest.mark.parametrize("codings", [[b"gzip"], [b"identity", b"gzip"], [b"GZIP"], [b"br"], [b""]])
async def test_a_compressed_body_is_never_unpacked(
    upstream: Scripted, app: App, codings: list[bytes]
) -> None:
    lines = [b"Content-Encoding: " + one for one in codings]
    async with wire(app.url) as raw:
        await raw.send(request_of(app.url, length(app.url), *lines))
        answer = await raw.answer()
    assert answer.status == 415
    assert answer.headers["accept-encoding"] == "identity"
    assert upstream.seen("tools/call") == []


SPLIT = {
    "folded": b"a\r\n Set-Cookie: evil=1",
    "folded by a tab": b"a\r\n\tSet-Cookie: evil=1",
    "a bare LF": b"a\nSet-Cookie: evil=1",
    "a bare LF, folded": b"a\n Set-Cookie: evil=1",
    "a bare CR": b"a\rSet-Cookie: evil=1",
    "control characters": b"a\x0b\x1b[31m\x7fb",
    "no UTF-8": b"a\xff\xfeb",
    "a line end of Unicode": "a\u2028Set-Cookie: evil=1\u0085b".encode(),
}
PLACES = {
    "a challenge": ("tools/call", b"401 Unauthorized", b"WWW-Authenticate: "),
    "a media type": ("tools/call", b"403 Forbidden", b"Content-Type: "),
    "a session": ("initialize", b"200 OK", b"Content-Type: application/json\r\nMcp-Session-Id: "),
}


@pytest.mark.rule("ERRORS", "HEADERS")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("split", SPLIT)
async def test_a_servers_header_makes_none_of_its_own(
    upstream: Scripted, app: App, place: str, split: str
) -> None:
    """What a hostile server writes into a header that is passed on stays in it, or does not pass."""
    method, status, name = PLACES[place]
    said = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},'
    said += b'"serverInfo":{"name":"s","version":"1"}}}'
    length_said = b"\r\nContent-Length: %d\r\n\r\n" % len(said)
    begun = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
    async with wire(app.url) as raw:
        if method == "initialize":
            sent = post(begun)
        else:
            await raw.send(request_of(app.url, length(app.url)))
            assert (await raw.answer()).status == 200  # the shim has its session by now
            sent = request_of(app.url, length(app.url))
        upstream.once(
            method, Broken(b"HTTP/1.1 " + status + b"\r\n" + name + SPLIT[split] + length_said + said)
        )
        await raw.send(sent)
        head = await raw.reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    named = {line.partition(":")[0].lower() for line in lines[1:]}
    assert "set-cookie" not in named
    assert not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", head.replace(b"\r\n", b"")), head


PAGES = {
    "another host": ("127.0.0.1", {"Host": "evil.example"}, 403),
    "another host with the port": ("127.0.0.1", {"Host": "evil.example:8766"}, 403),
    "a name that begins alike": ("127.0.0.1", {"Host": "localhost.evil.example"}, 403),
    "loopback": ("127.0.0.1", {"Host": "LocalHost:1"}, 200),
    "nothing": ("127.0.0.1", {"Host": ""}, 403),
    "an address": ("127.0.0.1", {"Host": "[::1]:8766"}, 200),
    "one that is allowed": ("127.0.0.1", {"Host": "admin.example.org"}, 200),
    "in other letters": ("127.0.0.1", {"Host": "ADMIN.Example.org:8766"}, 200),
    "where others may come": ("0.0.0.0", {"Host": "taskshim-admin:8766"}, 200),
}


@pytest.mark.rule("ORIGIN")
@pytest.mark.parametrize("path", ["/metrics", "/upstreams", "/cutover", "/readyz"])
@pytest.mark.parametrize("case", PAGES)
async def test_a_page_does_not_read_the_admin_address_under_a_name_of_its_own(
    upstream: Scripted, tmp_path: Path, case: str, path: str
) -> None:
    host, headers, status = PAGES[case]
    config = config_for(
        upstream.url, tmp_path, upstream={"dialect": "experimental"}, admin={"host": host},
        listen={"allowed_hosts": ["admin.Example.ORG"]},
    )  # fmt: skip
    async with running(config) as app, aiohttp.ClientSession() as http:
        url = str(app.admin_url).replace("0.0.0.0", "127.0.0.1")
        async with http.get(url + path, headers=headers) as answer:
            assert answer.status == status
            assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.rule("ORIGIN", "CUTOVER-RULES")
@pytest.mark.parametrize("token", ["x" * 16, None])
@pytest.mark.parametrize(
    "authorization", [None, b"Bearer \xff\xfe", b"Bearer", b"Basic YTpi", b"Bearer " + b"y" * 16]
)
async def test_a_page_does_not_change_the_cutover(
    upstream: Scripted, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    authorization: bytes | None, token: str | None,
) -> None:  # fmt: skip
    """A browser sends a form or a text without asking first, but no credential that it does not know."""
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, admin={"token": token})
    body = b'{"default": "main"}'
    lines = [] if authorization is None else [b"Authorization: " + authorization]
    head = [b"POST /cutover HTTP/1.1", b"Host: localhost", b"Origin: https://evil.example",
            b"Content-Type: text/plain", b"Content-Length: %d" % len(body), *lines]  # fmt: skip
    async with running(config) as app, wire(str(app.admin_url)) as raw:
        await raw.send(b"\r\n".join(head) + b"\r\n\r\n" + body)
        assert (await raw.answer()).status == 403
        await raw.send(
            b"OPTIONS /cutover HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n"
        )
        asked_first = await raw.answer()
        assert asked_first.status == 405
        assert "access-control-allow-origin" not in asked_first.headers
    assert "Traceback" not in caplog.text
