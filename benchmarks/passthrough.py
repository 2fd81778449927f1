"""A bare byte pass-through: what any aiohttp proxy pays before it understands a single message."""

import argparse
import asyncio

import aiohttp
from aiohttp import web

from benchmarks.serving import serve_forever

HOP_BY_HOP = frozenset(
    {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "te", "trailer", "upgrade"}
)


async def run(port: int, upstream: str) -> None:
    """Pass every request on to `upstream` and its answer back, until SIGTERM."""
    async with aiohttp.ClientSession(
        upstream,
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    ) as client:

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            body = await request.read()
            headers = [item for item in request.headers.items() if item[0].lower() not in HOP_BY_HOP]
            async with client.request(
                request.method, request.path_qs, data=body or None, headers=headers, allow_redirects=False
            ) as answer:
                kept = [item for item in answer.headers.items() if item[0].lower() not in HOP_BY_HOP]
                response = web.StreamResponse(status=answer.status, headers=kept)
                response.content_length = answer.content_length
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response

        await serve_forever(handle, port)


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True, help="origin, such as http://127.0.0.1:3000")
    options = parser.parse_args()
    asyncio.run(run(options.port, options.upstream))


if __name__ == "__main__":
    main()
