"""A call under an idempotency key, by whichever front it comes and whatever the upstream speaks (DUR-3)."""

import hashlib
from collections.abc import Awaitable, Callable

from aiohttp import web

from shim.fronts.legacy_request import Asked
from shim.fronts.legacy_verbs import answer
from shim.fronts.vouching import Vouching
from shim.hub import rawjson
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.tasks.idempotency import Answer, Idempotency, Keyed, NothingRan, Settle
from shim.upstreams.base import Context
from shim.wire.errors import UpstreamFault, invalid_params
from shim.wire.jsonrpc import Response, read_upstream

META = "io.taskshim/idempotencyKey"
_HEADER = "Idempotency-Key"
_CHARS = 256
_OBJECT = b"{"
_REFUSED = range(400, 500)


def keyed_call(http: web.BaseRequest, ctx: Context, params: Members, call: Members) -> Keyed | None:
    """Give the key and the body of a call; None where it has no key that counts. Raises ClientFault.

    `params` are the request's, `call` has the name and arguments of the tool. Nothing else is part of the
    body: a retry may have another id, another progress token, another ttl. Each round of a call that asks
    its client is a call of its own, told by its requestState.
    """
    meta = params.get("_meta", b"")
    given = rawjson.members(meta).get(META) if meta[:1] == _OBJECT else None
    said = set(http.headers.getall(_HEADER, ()))
    if len(said) > 1:
        raise invalid_params(f"{_HEADER}: stands twice with different values")
    key = said.pop() if said else rawjson.string(given)
    if key is None:
        return None
    if not 0 < len(key) <= _CHARS:
        raise invalid_params(f"{_HEADER}: expected 1 to {_CHARS} characters")
    if ctx.caller.kind == "none":
        ctx.trace.lenient("OWN-NONE", "idempotency key of a caller that cannot be told apart: ignored")
        return None
    if (state := params.get("requestState")) is not None:
        key = f"{key} {hashlib.sha256(state).hexdigest()}"
    body: Members = {name: call[name] for name in ("name", "arguments") if name in call}
    return Keyed(key, rawjson.join(body))


class LegacyOnce:
    """Answers a legacy client's request; a call under a key once, however often it comes."""

    def __init__(self, idempotency: Idempotency, vouching: Vouching) -> None:
        self._idempotency = idempotency
        self._vouching = vouching

    async def serve(
        self, asked: Asked, serve: Callable[[], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer by `serve`, whatever way it takes, or as the call was answered before. Raises ShimError."""
        call, takes_task = _called(asked)
        keyed = keyed_call(asked.http, asked.ctx, asked.message.params, call) if call is not None else None
        if keyed is None:
            return await serve()
        await self._vouching.ensure(asked.ctx)
        asked.reply.endure()
        shown: web.StreamResponse | None = None

        async def run(settle: Settle) -> None:
            nonlocal shown

            async def hear(data: bytes) -> None:
                response = _answer_to(asked.message.id, data)
                if response is not None:
                    await settle(Answer(asked.dialect.name, response))

            asked.reply.on_answer(hear)
            try:
                shown = await serve()
            finally:
                asked.reply.on_answer(None)
            if shown.status in _REFUSED:
                raise NothingRan

        try:
            response = await self._idempotency.once(
                asked.ctx, keyed, run, asked.dialect, takes_task=takes_task
            )
        except NothingRan:
            assert shown is not None  # noqa: S101 - who raises it has answered
            return shown
        return shown or await asked.reply.send(answer(asked.message.id, response))


def _called(asked: Asked) -> tuple[Members | None, bool]:
    """Give the call in a request, if it is one, and whether it asks for a task."""
    params, dialect = asked.message.params, asked.dialect
    if asked.message.method == CALL:
        return params, dialect.asks_for_task(params)
    if dialect.methods.verb(asked.message.method) != "create":
        return None, False
    try:
        return dialect.read_create_request(params).params, True
    except ValueError:
        return None, False  # it is refused by who serves it


def _answer_to(message_id: bytes, data: bytes) -> Response | None:
    """Read a passing message if it is the answer to that request."""
    try:
        message = read_upstream(data)
    except UpstreamFault:
        return None
    return message if isinstance(message, Response) and message.id == message_id else None
