"""The jobs of crossing_jobs.py with the fastmcp 4 client, in either era (`--mode=auto` or `legacy`)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import crossing_jobs as jobs
import mcp_types as t
from crossing_jobs import Heard, Json
from crossing_modern import Callbacks, hearing, in_new_era, level_of, reference, refusals, wire
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StreamableHttpTransport


class Fast:
    """The client of fastmcp 4 as a Peer."""

    def __init__(self, client: Client[StreamableHttpTransport], callbacks: Callbacks) -> None:
        self.client, self._callbacks = client, callbacks

    async def tools(self) -> list[Json]:
        return [wire(tool) for tool in await self.client.list_tools()]

    async def call(
        self, name: str, arguments: Json, *, progress: bool = False, level: t.LoggingLevel | None = None
    ) -> Json:
        session = self.client.session
        with refusals():
            if level is not None and not in_new_era(session):
                await self.client.set_logging_level(level)
            told = self._callbacks.told if progress else None
            meta = level_of(session, level)
            return wire(await self.client.call_tool_mcp(name, arguments, progress_handler=told, meta=meta))

    async def abandon(self, name: str, arguments: Json, begun: Callable[[], Awaitable[None]]) -> None:
        call = asyncio.create_task(self.client.call_tool_mcp(name, arguments))
        await begun()
        call.cancel()
        await asyncio.wait([call])

    async def prompts(self) -> list[Json]:
        return [wire(prompt) for prompt in await self.client.list_prompts()]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Json:
        with refusals():
            return wire(await self.client.get_prompt(name, arguments))

    async def resources(self) -> list[Json]:
        return [wire(resource) for resource in await self.client.list_resources()]

    async def templates(self) -> list[Json]:
        return [wire(template) for template in await self.client.list_resource_templates()]

    async def read(self, uri: str) -> Json:
        with refusals():
            return {"contents": [wire(one) for one in await self.client.read_resource(uri)]}

    async def complete(self, ref: Json, name: str, value: str, context: dict[str, str] | None) -> Json:
        with refusals():
            return wire(await self.client.complete(reference(ref), {"name": name, "value": value}, context))

    def hearing(self, uri: str) -> contextlib.AbstractAsyncContextManager[None]:
        return hearing(self.client.session, self._callbacks.heard, uri)


@contextlib.asynccontextmanager
async def connect(url: str, headers: dict[str, str], mode: str, heard: Heard) -> AsyncIterator[Fast]:
    """Connect; in the old era ready when the GET stream is open."""
    callbacks = Callbacks(heard)

    async def elicit(_: str, __: Any, params: t.ElicitRequestParams, ___: Any) -> ElicitResult[Any]:
        return ElicitResult(**heard.elicited(wire(params)))

    async def sample(_: Any, params: t.CreateMessageRequestParams, __: Any) -> str:
        heard.question("sampling/createMessage", wire(params))
        return jobs.MODEL_SAYS

    def list_roots(_: Any) -> list[Any]:
        heard.question("roots/list")
        return [jobs.ROOT]

    transport = StreamableHttpTransport(url, headers=headers, httpx_client_factory=callbacks.http)
    client = Client(
        transport,
        mode=mode,
        elicitation_handler=elicit,
        sampling_handler=sample,
        roots=list_roots,
        log_handler=callbacks.log,
        message_handler=callbacks.message,
        progress_handler=callbacks.told,
    )
    async with client:
        if not in_new_era(client.session):
            await callbacks.listening.wait()
        yield Fast(client, callbacks)


if __name__ == "__main__":
    jobs.main(connect)
