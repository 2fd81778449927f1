"""Which legacy dialect a request is in (CS-DETECT)."""

from collections import defaultdict
from collections.abc import Mapping

from shim.config import Config
from shim.fronts.legacy_request import Asked
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.hub.facts import CALL
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context
from shim.wire.errors import invalid_request
from shim.wire.jsonrpc import Request

_OF_TASKS = "tasks/"


class Detector:
    """Tells dialects apart: the address, the method's own name, the task's, the session's, the config's."""

    def __init__(self, config: Config, dialects: Mapping[str, Dialect], ledger: Ledger) -> None:
        self._default = config.legacy.dialect
        self._dialects = dialects
        self._ledger = ledger
        legacy = [dialect for dialect in dialects.values() if dialect.era == "legacy"]
        self._augmenting = [dialect for dialect in legacy if dialect.creates_by_param]
        self._augments = frozenset(dialect.create.member for dialect in self._augmenting)
        self._with_method: dict[str, list[Dialect]] = defaultdict(list)
        for dialect in legacy:
            for method in dialect.methods.names():
                self._with_method[method].append(dialect)

    async def of(
        self, message: Request, ctx: Context, session: SessionRow | None, pinned: str | None
    ) -> Dialect:
        """Give a request's dialect. Raises ClientFault for a member of it in another case (VALIDATE)."""
        dialect = await self._of(message, ctx, session, pinned)
        known = dialect.names_by_lower_case
        for key in message.params:
            if known.get(key.casefold(), key) != key:
                raise invalid_request(f"params: the key {key!r} is written in another case")
        return dialect

    def of_session(self, session: SessionRow | None, pinned: str | None) -> Dialect:
        """Give the dialect of a session's streams."""
        return self._dialects[pinned or self._last(session)]

    def turns(self, session: SessionRow, message: Request, dialect: Dialect) -> bool:
        """Tell whether a session speaks another dialect from now on.

        An answer is taken by the name that only one dialect has for it, from clients of the others too.
        """
        return session.dialect != dialect.name and dialect.methods.verb(message.method) != "answer"

    def about_tasks(self, method: str) -> bool:
        """Tell whether a method is about tasks, in whatever dialect."""
        return method.startswith(_OF_TASKS) or method in self._with_method

    def pass_over(self, asked: Asked) -> None:
        """Take from a call what asks for a task in another dialect than its own (CS-CREATE)."""
        message, dialect = asked.message, asked.dialect
        if self._augments.isdisjoint(message.params):
            return
        members = self._augments & message.params.keys()
        if dialect.creates_by_param:
            members -= {dialect.create.member}
        for member in members:
            asked.ctx.trace.lenient("CS-CREATE", f"{CALL}: params.{member}")
        if members:
            params = {key: value for key, value in message.params.items() if key not in members}
            asked.message = Request(message.id, message.method, params)

    def _last(self, session: SessionRow | None) -> str:
        return (session.dialect if session is not None else None) or self._default

    async def _of(
        self, message: Request, ctx: Context, session: SessionRow | None, pinned: str | None
    ) -> Dialect:
        if pinned is not None:
            return self._dialects[pinned]
        naming = self._naming(message)
        if len(naming) == 1:
            return naming[0]
        last = self._dialects[self._last(session)]
        if not naming:
            return last
        made = await self._of_task(message, ctx, naming)
        return next((one for one in (made, last, self._dialects[self._default]) if one in naming), naming[0])

    def _naming(self, message: Request) -> list[Dialect]:
        """Give the legacy dialects that have the request as their own."""
        if message.method == CALL:
            return [dialect for dialect in self._augmenting if dialect.asks_for_task(message.params)]
        return self._with_method.get(message.method, [])

    async def _of_task(self, message: Request, ctx: Context, naming: list[Dialect]) -> Dialect | None:
        """Give the dialect that the client of the request's task spoke when it made it."""
        for member in {dialect.fields.task_id for dialect in naming}:
            task_id = rawjson.string(message.params.get(member))
            row = (await self._ledger.lookup(ctx.caller.key, task_id)).row if task_id is not None else None
            if row is not None:
                return self._dialects.get(row.client_dialect or "")
        return None
