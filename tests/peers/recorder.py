"""Stands between the shim and a server, passes everything and keeps every message."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

_HOP = {"host", "connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass
class Recorder:
    """What the shim sent to the server."""

    url: str = ""
    sent: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@asynccontextmanager
async def recording(server: str) -> AsyncIterator[Recorder]:
    """Record in front of a server; the recorder's `url` is where to send."""
    recorder = Recorder()
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as client:

        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            if body:
                recorder.sent.append(json.loads(body))
            recorder.headers.append(dict(request.headers))
            headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP]
            async with client.request(
                request.method, server, data=body, headers=headers, allow_redirects=False
            ) as answer:
                back = [(name, value) for name, value in answer.headers.items() if name.lower() not in _HOP]
                response = web.StreamResponse(status=answer.status, headers=back)
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response

        app = web.Application()
        app.router.add_route("*", "/mcp", handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        recorder.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
        try:
            yield recorder
        finally:
            await runner.cleanup()
