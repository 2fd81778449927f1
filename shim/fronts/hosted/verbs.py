"""Tasks of legacy clients on a modern server, all of them by the hub's verbs (LM-CREATE to LM-LIST, CS-*)."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from shim.fronts.hosted.asking import Asking
from shim.fronts.legacy_request import Asked
from shim.fronts.legacy_verbs import Verbs
from shim.hub import rawjson
from shim.hub.facts import CALL
from shim.ledger.records import AskRow, TaskRow
from shim.wire.errors import invalid_params
from shim.wire.hosting import upstream_params

Handler = Callable[[Asked], Awaitable[web.StreamResponse]]


class HostedVerbs:
    """Serves the task methods of every legacy dialect."""

    def __init__(self, hub: Verbs, asking: Asking) -> None:
        self._hub = hub
        self._asking = asking
        self._streams = asking.streams
        self._verbs: Mapping[str, Handler] = {
            "create": self._create,
            "get": self._get,
            "result": self._result,
            "list": hub.list,
            "cancel": self._cancel,
            "answer": self._answer,
        }

    def handler(self, asked: Asked) -> Handler | None:
        """Give what serves a request about tasks; None for any other."""
        verb = asked.dialect.methods.verb(asked.message.method)
        if verb is not None:
            asked.ctx.trace.feature(asked.message.method)
            return self._verbs[verb]
        if asked.message.method == CALL and asked.dialect.asks_for_task(asked.message.params):
            asked.ctx.trace.feature("task param")
            return self._create
        return None

    async def _create(self, asked: Asked) -> web.StreamResponse:
        ctx = asked.ctx
        ctx.trace.rule("LM-CREATE")
        try:
            call = asked.dialect.read_create_request(asked.message.params)
        except ValueError as exc:
            raise invalid_params(f"params.{exc}") from exc
        ctx.trace.tool = rawjson.string(call.params.get("name"))
        params, ctx.progress_token = upstream_params(call.params)
        made = await self._hub.create(asked, params, call.ttl_ms)
        self._streams.wake(ctx.client_session)
        return made

    async def _get(self, asked: Asked) -> web.StreamResponse:
        row = await self._hub.own(asked)
        self._touch(asked, row)
        return await self._hub.get(asked, row)

    async def _result(self, asked: Asked) -> web.StreamResponse:
        """Wait for the end; the task's questions come here where the session's own stream is not open."""
        asked.ctx.trace.rule("LM-RESULT")
        row, session = await self._hub.own(asked), asked.session
        self._touch(asked, row)
        sent: dict[str, AskRow] = {}

        async def ask(row: TaskRow) -> None:
            if session is not None and not self._streams.is_open(row.client_session):
                related = asked.dialect.related_task
                await self._asking.task(row, session, asked.reply.event, sent, related=related)

        return await self._hub.result(asked, row, ask)

    async def _cancel(self, asked: Asked) -> web.StreamResponse:
        asked.ctx.trace.rule("LM-CANCEL")
        return await self._hub.cancel(asked, await self._hub.own(asked))

    async def _answer(self, asked: Asked) -> web.StreamResponse:
        asked.ctx.trace.rule("CS-INPUT")
        row = await self._hub.own(asked)
        return await self._hub.answer(asked, row, await self._hub.responses(asked, row))

    def _touch(self, asked: Asked, row: TaskRow) -> None:
        if asked.session is not None:
            self._streams.touched(asked.session.session_id, row)
