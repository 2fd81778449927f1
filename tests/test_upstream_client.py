"""HEADERS, ERRORS: requests over kept connections, and servers that end them in odd ways."""

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from yarl import URL

from shim.upstreams.client import Answer, Client, Headers

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LARGE = 8 * 1024 * 1024
"""More than the buffers of both sockets take."""


class Server:
    """Answers each request with the next of its answers; for None it closes the connection."""

    def __init__(self) -> None:
        self.answers: list[bytes | None] = []
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.reads_bodies = True
        self.closes = False
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                self.heads.append(head)
                length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
                if self.reads_bodies:
                    self.bodies.append(await reader.readexactly(length))
                answer = self.answers.pop(0)
                if answer is not None:
                    writer.write(answer)
                    await writer.drain()
                if answer is None or self.closes:
                    break
                if not self.reads_bodies:
                    await reader.read()
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()
            self.ended.set()


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    client = Client(
        URL(f"http://{host}:{port}/mcp?a=%20b"), aiohttp.TCPConnector(limit=0),
        connect_timeout_ms=5_000, line_bytes=65_536,
    )  # fmt: skip
    yield client
    await client.close()
    listening.close()
    await listening.wait_closed()


async def read(client: Client, method: str = "POST", body: bytes | None = b"{}") -> bytes:
    async with await client.request(method, (), body) as answer:
        return await answer.content.read()


@pytest.mark.rule("HEADERS")
@pytest.mark.parametrize(
    ("method", "headers", "body", "said"),
    [
        ("POST", [("X-One", "1"), ("X-One", "2")], b"{}", [
            "Host: HOST", "Accept: */*", "Accept-Encoding: identity", "User-Agent: taskshim",
            "X-One: 1", "X-One: 2", "Content-Length: 2",
        ]),
        ("GET", [("ACCEPT", "text/event-stream"), ("host", "inner"), ("user-agent", "own")], None, [
            "Accept-Encoding: identity", "ACCEPT: text/event-stream", "host: inner", "user-agent: own",
        ]),
        ("DELETE", [("Accept", "a"), ("content-length", "9"), ("Transfer-Encoding", "chunked")], None, [
            "Host: HOST", "Accept-Encoding: identity", "User-Agent: taskshim", "Accept: a",
            "Content-Length: 0",
        ]),
        ("POST", [("Accept", "ä\udcff")], b"", [
            "Host: HOST", "Accept-Encoding: identity", "User-Agent: taskshim", "Accept: ä",
            "Content-Length: 0",
        ]),
    ],
)  # fmt: skip
async def test_what_is_sent(
    server: Server, client: Client, method: str, headers: Headers, body: bytes | None, said: list[str]
) -> None:
    server.answers = [OK]
    async with await client.request(method, headers, body) as answer:
        assert (answer.status, answer.content_length, await answer.content.read()) == (200, 2, b"{}")
    place = f"{client.address.host}:{client.address.port}"
    lines = [line.replace("HOST", place) for line in said]
    assert server.heads == ["\r\n".join([f"{method} /mcp?a=%20b HTTP/1.1", *lines, "", ""])]
    assert server.bodies == [body or b""]


@pytest.mark.rule("HEADERS")
@pytest.mark.parametrize("char", ["\r", "\n", "\0", "\x0b", "\x7f", "\r\nX-Two: 2\r\n\r\nGET / HTTP/1.1"])
@pytest.mark.parametrize("place", ["name", "value", "method"])
async def test_nothing_that_would_be_read_as_more_is_sent(
    server: Server, client: Client, char: str, place: str
) -> None:
    parts = {"name": "X-One", "value": "1", "method": "POST"}
    parts[place] += char
    with pytest.raises(ValueError, match="control character"):
        await client.request(parts["method"], [(parts["name"], parts["value"])], b"{}")
    assert server.connections == 0


async def test_a_connection_is_kept_while_answers_are_read_to_their_end(
    server: Server, client: Client
) -> None:
    server.answers = [OK, b"HTTP/1.1 204 No Content\r\n\r\n", OK]
    assert [await read(client), await read(client), await read(client)] == [b"{}", b"", b"{}"]
    assert server.connections == 1


@pytest.mark.parametrize("leave", [Answer.release, Answer.close])
async def test_an_answer_that_is_not_read_costs_the_connection(
    server: Server, client: Client, leave: Callable[[Answer], None]
) -> None:
    server.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", OK]
    answer = await client.request("POST", (), b"{}")
    reading = asyncio.ensure_future(answer.content.read())
    await asyncio.sleep(0)
    leave(answer)
    with pytest.raises(aiohttp.ClientConnectionError):
        await reading
    assert await read(client) == b"{}"
    assert server.connections == 2


async def test_a_server_that_answers_before_it_has_read_all(server: Server, client: Client) -> None:
    server.reads_bodies = False
    server.answers = [b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}", OK]
    async with await client.request("POST", (), b"x" * LARGE) as answer:
        assert (answer.status, await answer.content.read()) == (413, b"{}")
    await server.ended.wait()  # what was still to be sent is not sent before the next request
    assert await read(client, "GET", None) == b"{}"
    assert server.connections == 2


async def test_what_is_said_in_between(server: Server, client: Client) -> None:
    server.answers = [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + OK, OK]
    assert [await read(client), await read(client)] == [b"{}", b"{}"]
    assert server.connections == 1


async def _closed(server: Server, client: Client) -> None:
    server.answers = [OK, None, OK]
    assert await read(client) == b"{}"


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
async def test_what_does_no_harm_is_sent_again_once(server: Server, client: Client, method: str) -> None:
    await _closed(server, client)
    assert await read(client, method, None) == b"{}"
    assert [head.partition(" ")[0] for head in server.heads] == ["POST", method, method]


@pytest.mark.rule("ERRORS")
async def test_a_call_is_never_sent_twice(server: Server, client: Client) -> None:
    await _closed(server, client)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await read(client)
    assert len(server.heads) == 2


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"SSH-2.0-x\r\n\r\n", aiohttp.ClientResponseError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", aiohttp.ClientResponseError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", aiohttp.ClientResponseError),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Y: 1\r\n" * 5_000 + b"\r\n", aiohttp.ClientResponseError),
        (b"HTTP/1.1 200 O", aiohttp.ServerDisconnectedError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", aiohttp.ClientPayloadError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", aiohttp.ClientError),
    ],
)
async def test_what_is_no_answer(
    server: Server, client: Client, answer: bytes, fault: type[Exception]
) -> None:
    server.closes = True
    server.answers = [answer]
    with pytest.raises(fault):
        await read(client)
    server.closes = False
    server.answers = [OK]
    assert await read(client) == b"{}"


async def test_a_request_that_is_given_up_costs_the_connection(server: Server, client: Client) -> None:
    server.answers = [b"", OK]
    asking = asyncio.ensure_future(read(client))
    await _until(lambda: bool(server.heads))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await read(client) == b"{}"
    assert server.connections == 2


async def _until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.001)


@pytest.mark.rule("ERRORS")
async def test_nobody_listens() -> None:
    nowhere = Client(
        URL("http://127.0.0.1:1/"), aiohttp.TCPConnector(), connect_timeout_ms=5_000, line_bytes=65_536
    )
    with pytest.raises(aiohttp.ClientConnectorError):
        await nowhere.request("GET", ())
    await nowhere.close()
