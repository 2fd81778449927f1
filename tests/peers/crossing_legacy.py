"""The jobs of crossing_jobs.py with the mcp 1.30 client; run by its environment."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import crossing_jobs as jobs
import httpx
import mcp.types as t
from crossing_jobs import Heard, Json
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl, BaseModel


def wire(model: BaseModel) -> Json:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except McpError as error:
        raise jobs.RefusedError(error.error.code) from error


class Client:
    """A session of mcp 1.30 as a Peer."""

    def __init__(self, session: ClientSession, heard: Heard) -> None:
        self.session, self._heard = session, heard

    async def tools(self) -> list[Json]:
        return [wire(tool) for tool in (await self.session.list_tools()).tools]

    async def call(
        self, name: str, arguments: Json, *, progress: bool = False, level: t.LoggingLevel | None = None
    ) -> Json:
        async def told(done: float, total: float | None, message: str | None) -> None:
            self._heard.told(done, total, message)

        with refusals():
            if level is not None:
                await self.session.set_logging_level(level)
            steps = told if progress else None
            return wire(await self.session.call_tool(name, arguments, progress_callback=steps))

    async def abandon(self, name: str, arguments: Json, begun: Callable[[], Awaitable[None]]) -> None:
        request_id = self.session._request_id
        call = asyncio.create_task(self.session.call_tool(name, arguments))
        await asyncio.sleep(0)  # the call takes its id
        await begun()
        # this client sends no cancellation of its own accord
        params = t.CancelledNotificationParams(requestId=request_id, reason="enough")
        await self.session.send_notification(t.ClientNotification(t.CancelledNotification(params=params)))
        call.cancel()
        await asyncio.wait([call])

    async def prompts(self) -> list[Json]:
        return [wire(prompt) for prompt in (await self.session.list_prompts()).prompts]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Json:
        with refusals():
            return wire(await self.session.get_prompt(name, arguments))

    async def resources(self) -> list[Json]:
        return [wire(resource) for resource in (await self.session.list_resources()).resources]

    async def templates(self) -> list[Json]:
        listed = await self.session.list_resource_templates()
        return [wire(template) for template in listed.resourceTemplates]

    async def read(self, uri: str) -> Json:
        with refusals():
            return wire(await self.session.read_resource(AnyUrl(uri)))

    async def complete(self, ref: Json, name: str, value: str, context: dict[str, str] | None) -> Json:
        kind = t.PromptReference if ref["type"] == "ref/prompt" else t.ResourceTemplateReference
        asked = kind.model_validate(ref)
        with refusals():
            got = await self.session.complete(asked, {"name": name, "value": value}, context)
        return wire(got.completion)

    @contextlib.asynccontextmanager
    async def hearing(self, uri: str) -> AsyncIterator[None]:
        with refusals():
            await self.session.subscribe_resource(AnyUrl(uri))
            yield
            await self.session.unsubscribe_resource(AnyUrl(uri))


@contextlib.asynccontextmanager
async def connect(
    url: str, headers: dict[str, str], _: str, heard: Heard, *, answers: bool = True
) -> AsyncIterator[Client]:
    """Connect; ready when the GET stream is open. Without `answers` nobody answers what is asked."""
    listening = asyncio.Event()

    async def note(response: httpx.Response) -> None:
        if response.request.method == "GET":
            listening.set()

    async def elicit(_: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        answer = heard.elicited(wire(params))
        if not answers:
            await asyncio.Event().wait()
        return t.ElicitResult.model_validate(answer)

    async def sample(_: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        heard.question("sampling/createMessage", wire(params))
        said = t.TextContent(type="text", text=jobs.MODEL_SAYS)
        return t.CreateMessageResult(role="assistant", content=said, model="a-model")

    async def list_roots(_: Any) -> t.ListRootsResult:
        heard.question("roots/list")
        return t.ListRootsResult.model_validate({"roots": [{"uri": jobs.ROOT}]})

    async def log(params: t.LoggingMessageNotificationParams) -> None:
        heard.said(params.level, params.data, params.logger)

    async def message(message: Any) -> None:
        if isinstance(message, t.ServerNotification):
            told = wire(message)
            if told["method"] in jobs.CHANGES:
                heard.came(told["method"], told.get("params") or {})

    timeout = httpx.Timeout(120)
    hooks = {"response": [note]}
    async with (
        httpx.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks) as http,
        streamable_http_client(url, http_client=http) as (read, write, _session_id),
        ClientSession(
            read, write,
            elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=list_roots,
            logging_callback=log, message_handler=message,
        ) as session,
    ):  # fmt: skip
        await session.initialize()
        await listening.wait()
        yield Client(session, heard)


if __name__ == "__main__":
    jobs.main(connect)
