"""Speaks to a modern server: what the verbs want, each as one stateless request (LM-META, SEP-2663)."""

from collections.abc import Mapping
from dataclasses import replace

from shim.hub import rawjson
from shim.hub.codec import SECTION_1, Reading, TaskUnknownError, read_create
from shim.hub.dialect import Dialect
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.ledger.records import InputRow, TaskRow
from shim.recent import Recent
from shim.upstreams.authority import Authority
from shim.upstreams.base import Answered, Context, Created, Facts, Notify, NotYet, TaskUnknown
from shim.upstreams.faults import as_fault, code
from shim.upstreams.mirroring import Mirroring
from shim.upstreams.modern.exchange import Exchange, Parts
from shim.upstreams.support import override
from shim.wire.era import MODERN_VERSIONS
from shim.wire.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UpstreamFault,
)
from shim.wire.jsonrpc import Response
from shim.wire.methods import DISCOVER, RUN
from shim.wire.modern import has_tasks, read_shown
from shim.wire.param_headers import param_headers

_FACTS_MS = 60_000
_REMEMBERED = 10_000


class ModernUpstream:
    """A server of the new API behind the shim. Implements `Upstream`."""

    has_sessions = False

    def __init__(
        self, name: str, dialect: Dialect, parts: Parts, *, overrides: Mapping[str, str], pages: int
    ) -> None:
        self.name = name
        self.dialect = dialect
        self.parts = parts
        self._exchange = Exchange(parts)
        self._overrides = overrides
        self._mirroring = Mirroring(pages)
        self._facts: Recent[str, tuple[float, Facts]] = Recent(_REMEMBERED)

    @property
    def credentials(self) -> Authority:
        """Whose credentials there are for the shim's own work."""
        return self.parts.authority

    def next_id(self) -> bytes:
        """Make a JSON-RPC id that the server has not seen."""
        return self.parts.ids.next()

    # -- what the server says of itself, and what needs no task --------------------------------

    async def facts(self, ctx: Context) -> Facts:
        """Give the discover result for this caller, asked for at most once a minute."""
        now = self.parts.clock.ticks_ms()
        asked, known = self._facts.get(ctx.caller.key, (0.0, None))
        if known is not None and now - asked < _FACTS_MS:
            return known
        init = await self._discover(ctx)
        facts = Facts(init, MODERN_VERSIONS[0], has_tasks(init))
        self._facts[ctx.caller.key] = (now, facts)
        return facts

    async def judge(self, ctx: Context) -> None:
        """Discover once more."""
        await self._discover(ctx)

    async def plain(self, ctx: Context, method: str, params: Members) -> Response:
        """Send a request as it is and give its answer, in the modern shape."""
        if method == CALL:
            return await self._call(ctx, params)
        return await self._exchange.ask(ctx, method, params, patient=method in RUN)

    async def listen(self, ctx: Context, params: Members, heard: Notify) -> bool:
        """Hold a subscription open; False where the method does not exist."""
        response = await self._exchange.ask(
            replace(ctx, notify=None), "subscriptions/listen", params, patient=True, heard=heard
        )
        return response.error is None or code(response.error) != METHOD_NOT_FOUND

    async def tool_support(self, ctx: Context, tool: str) -> str:
        """Say that every tool may run as a task: the server decides for each call (LM-TOOLS)."""
        return override(self._overrides, tool) or (
            "optional" if (await self.facts(ctx)).has_tasks else "forbidden"
        )

    async def accepts_session(self, ctx: Context, session_id: str) -> bool:  # noqa: ARG002 - of the protocol
        """Tell that there is no session to be adopted."""
        return False

    # -- tasks -----------------------------------------------------------------------------------

    async def create(
        self, ctx: Context, params: Members, ttl_ms: int | None, *, session_id: str | None = None
    ) -> Created | Answered:
        """Call the tool; the server decides whether that makes a task. It takes no ttl."""
        del ttl_ms, session_id
        response = await self._call(ctx, params)
        if response.result is None:
            return Answered(response)
        reading = read_create(self.dialect, rawjson.members(response.result))
        return Answered(response) if reading is None else Created(reading, None, reading.task.meta)

    async def _call(self, ctx: Context, params: Members) -> Response:
        """Call a tool; one whose parameters are missed in headers ran nothing and is called once more."""
        tool, arguments = rawjson.string(params.get("name")) or "", params.get("arguments")
        headers = param_headers(self._mirroring.of(ctx.caller.key, tool), arguments)
        response = await self._exchange.ask(ctx, CALL, params, patient=True, headers=headers)
        if response.error is None or code(response.error) != HEADER_MISMATCH:
            return response
        await self._mirroring.learn(ctx.caller.key, lambda page: self._exchange.ask(ctx, "tools/list", page))
        wanted = param_headers(self._mirroring.of(ctx.caller.key, tool), arguments)
        if wanted == headers:
            return response
        return await self._exchange.ask(ctx, CALL, params, patient=True, headers=wanted)

    async def keep(self, row: TaskRow) -> None:
        """Do nothing: no question comes but in the task itself."""

    async def find(self, ctx: Context, task_id: str) -> Reading | None:
        """Look for a task."""
        params = {self.dialect.fields.task_id: rawjson.encode(task_id)}
        response = await self._exchange.ask(ctx, str(self.dialect.methods.get), params)
        if response.error is not None and code(response.error) == INVALID_PARAMS:
            return None
        if response.result is None:
            raise as_fault(response)
        try:
            return read_shown(self.dialect, rawjson.members(response.result))
        except TaskUnknownError:
            return None

    async def get(self, ctx: Context, row: TaskRow) -> Reading:
        """Read the task's state, with its payload where it has ended."""
        response = await self._on_task(ctx, row, str(self.dialect.methods.get))
        if response.result is None:
            raise as_fault(response)
        try:
            return read_shown(self.dialect, rawjson.members(response.result))
        except TaskUnknownError as exc:
            ctx.trace.lenient(SECTION_1, str(exc))
            raise TaskUnknown from None

    async def result(self, ctx: Context, row: TaskRow, request_id: bytes) -> Response:
        """Refuse: the payload stands in the task."""
        del ctx, row, request_id
        raise NotYet

    async def abandon_result(self, ctx: Context, row: TaskRow, request_id: bytes) -> None:
        """Do nothing: there is no stream that could be abandoned."""

    async def cancel(self, ctx: Context, row: TaskRow) -> bool:
        """Ask to cancel; the server only acknowledges."""
        response = await self._on_task(ctx, row, str(self.dialect.methods.cancel))
        if response.error is not None:
            raise as_fault(response)
        return True

    async def answer(self, ctx: Context, row: TaskRow, asked: InputRow) -> bool:
        """Deliver an answer by its key."""
        responses = rawjson.join({asked.key: asked.response or b"{}"})
        params = {str(self.dialect.fields.input_responses): responses}
        try:
            response = await self._on_task(ctx, row, str(self.dialect.methods.answer), params)
        except TaskUnknown:
            return False
        return response.error is None

    async def ended(self, row: TaskRow) -> None:
        """Do nothing: the task holds nothing here."""

    async def sweep(self, *, delete: bool) -> None:  # noqa: ARG002 - of sessions
        """Forget what the server said too long ago to count; there are no sessions."""
        before_ms = self.parts.clock.ticks_ms() - _FACTS_MS
        while self._facts and next(iter(self._facts.values()))[0] <= before_ms:
            self._facts.popitem(last=False)

    async def close(self) -> None:
        """Do nothing: there are no streams of its own."""

    async def _discover(self, ctx: Context) -> Members:
        response = await self._exchange.ask(ctx, DISCOVER, {})
        if response.result is None:
            raise as_fault(response)
        return rawjson.members(response.result)

    async def _on_task(
        self, ctx: Context, row: TaskRow, method: str, more: Members | None = None
    ) -> Response:
        """Ask about a task. Raises TaskUnknown where the server says that it does not know it."""
        params = {**self.dialect.naming(row.upstream_task_id), **(more or {})}
        response = await self._exchange.ask(ctx, method, params)
        if response.error is not None:
            refusal = code(response.error)
            if refusal == INVALID_PARAMS:
                raise TaskUnknown
            if refusal == MISSING_CAPABILITY:
                raise UpstreamFault("the upstream did not see the extension declared")
        return response
