"""The jobs of crossing_jobs.py with the mcp 2.3 client, in either era (`--mode=auto` or `legacy`)."""

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import crossing_jobs as jobs
import httpx2
import mcp_types as t
from crossing_jobs import Heard, Json
from mcp import Client, MCPError
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.subscriptions import event_to_notification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

LEVEL = "io.modelcontextprotocol/logLevel"
warnings.simplefilter("ignore", MCPDeprecationWarning)  # it calls so what only the old era has


def wire(model: BaseModel) -> Json:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except MCPError as error:
        raise jobs.RefusedError(error.error.code) from error


def in_new_era(session: ClientSession) -> bool:
    return session.protocol_version in MODERN_PROTOCOL_VERSIONS


def level_of(session: ClientSession, level: str | None) -> dict[str, Any] | None:
    """What a call's `_meta` says of log messages."""
    return {LEVEL: level} if level is not None and in_new_era(session) else None


class Callbacks:
    """What the SDK's session calls back, kept and answered."""

    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self.listening = asyncio.Event()

    def http(self, **options: Any) -> httpx2.AsyncClient:
        """An HTTP client that tells when the GET stream is open."""

        async def note(response: httpx2.Response) -> None:
            if response.request.method == "GET":
                self.listening.set()

        timeout = httpx2.Timeout(120)
        return httpx2.AsyncClient(**{**options, "timeout": timeout, "event_hooks": {"response": [note]}})

    async def elicit(self, _: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        return t.ElicitResult.model_validate(self.heard.elicited(wire(params)))

    async def sample(self, _: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        self.heard.question("sampling/createMessage", wire(params))
        said = t.TextContent(type="text", text=jobs.MODEL_SAYS)
        return t.CreateMessageResult(role="assistant", content=said, model="a-model")

    async def list_roots(self, _: Any) -> t.ListRootsResult:
        self.heard.question("roots/list")
        return t.ListRootsResult.model_validate({"roots": [{"uri": jobs.ROOT}]})

    async def log(self, params: t.LoggingMessageNotificationParams) -> None:
        self.heard.said(params.level, params.data, params.logger)

    async def told(self, done: float, total: float | None, message: str | None) -> None:
        self.heard.told(done, total, message)

    async def message(self, message: Any) -> None:
        if isinstance(message, BaseModel):
            told = wire(message)
            if told.get("method") in jobs.CHANGES:
                self.heard.came(told["method"], told.get("params") or {})


@contextlib.asynccontextmanager
async def hearing(session: ClientSession, heard: Heard, uri: str) -> AsyncIterator[None]:
    """Subscribe in the way of the session's era."""
    if not in_new_era(session):
        with refusals():
            await session.subscribe_resource(uri)
            yield
            await session.unsubscribe_resource(uri)
        return
    every = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
    with refusals():
        async with listen(session, **every, resource_subscriptions=[uri]) as subscription:

            async def follow() -> None:
                async for event in subscription:
                    told = wire(event_to_notification(event, {}))
                    heard.came(told["method"], told.get("params") or {})

            following = asyncio.create_task(follow())
            yield
            following.cancel()
            await asyncio.wait([following])


class Modern:
    """The client of mcp 2.3 as a Peer."""

    def __init__(self, client: Client, callbacks: Callbacks) -> None:
        self._client, self._callbacks = client, callbacks

    async def tools(self) -> list[Json]:
        return [wire(tool) for tool in (await self._client.list_tools()).tools]

    async def call(
        self, name: str, arguments: Json, *, progress: bool = False, level: t.LoggingLevel | None = None
    ) -> Json:
        session = self._client.session
        with refusals():
            if level is not None and not in_new_era(session):
                await self._client.set_logging_level(level)
            told = self._callbacks.told if progress else None
            meta: Any = level_of(session, level)
            return wire(await self._client.call_tool(name, arguments, progress_callback=told, meta=meta))

    async def abandon(self, name: str, arguments: Json, begun: Callable[[], Awaitable[None]]) -> None:
        call = asyncio.create_task(self._client.call_tool(name, arguments))
        await begun()
        call.cancel()
        await asyncio.wait([call])

    async def prompts(self) -> list[Json]:
        return [wire(prompt) for prompt in (await self._client.list_prompts()).prompts]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Json:
        with refusals():
            return wire(await self._client.get_prompt(name, arguments))

    async def resources(self) -> list[Json]:
        return [wire(resource) for resource in (await self._client.list_resources()).resources]

    async def templates(self) -> list[Json]:
        listed = await self._client.list_resource_templates()
        return [wire(template) for template in listed.resource_templates]

    async def read(self, uri: str) -> Json:
        with refusals():
            return wire(await self._client.read_resource(uri))

    async def complete(self, ref: Json, name: str, value: str, context: dict[str, str] | None) -> Json:
        with refusals():
            asked = {"name": name, "value": value}
            return wire((await self._client.complete(reference(ref), asked, context)).completion)

    def hearing(self, uri: str) -> contextlib.AbstractAsyncContextManager[None]:
        return hearing(self._client.session, self._callbacks.heard, uri)


def reference(ref: Json) -> t.PromptReference | t.ResourceTemplateReference:
    if ref["type"] == "ref/prompt":
        return t.PromptReference.model_validate(ref)
    return t.ResourceTemplateReference.model_validate(ref)


@contextlib.asynccontextmanager
async def connect(url: str, headers: dict[str, str], mode: str, heard: Heard) -> AsyncIterator[jobs.Peer]:
    """Connect; in the old era ready when the GET stream is open."""
    callbacks = Callbacks(heard)
    async with (
        callbacks.http(headers=headers) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=mode,
            elicitation_callback=callbacks.elicit,
            sampling_callback=callbacks.sample,
            list_roots_callback=callbacks.list_roots,
            logging_callback=callbacks.log,
            message_handler=callbacks.message,
        ) as client,
    ):
        if not in_new_era(client.session):
            await callbacks.listening.wait()
        yield Modern(client, callbacks)


if __name__ == "__main__":
    jobs.main(connect)
