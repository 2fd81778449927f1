"""Which legacy dialect a request is in (CS-DETECT)."""

from collections.abc import Mapping

from shim.config import Config
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.hub.facts import CALL
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context
from shim.wire.jsonrpc import Request


class Detector:
    """Tells dialects apart: the address, the method's own name, the task's, the session's, the config's."""

    def __init__(self, config: Config, dialects: Mapping[str, Dialect], ledger: Ledger) -> None:
        self._default = config.legacy.dialect
        self._dialects = dialects
        self._ledger = ledger
        legacy = [dialect for dialect in dialects.values() if dialect.era == "legacy"]
        self._by_param = [dialect.name for dialect in legacy if dialect.creates_by_param]
        self._named_by = sorted({dialect.fields.task_id for dialect in legacy})
        self._having: dict[str, list[str]] = {}
        for dialect in legacy:
            for method in dialect.methods.names():
                self._having.setdefault(method, []).append(dialect.name)

    async def of(
        self, message: Request, ctx: Context, session: SessionRow | None, pinned: str | None
    ) -> Dialect:
        """Give a request's dialect."""
        if pinned is not None:
            return self._dialects[pinned]
        named = self._naming(message)
        if len(named) == 1:
            return self._dialects[named[0]]
        return self._dialects[await self._of_task(message, ctx) or self._last(session)]

    def of_session(self, session: SessionRow | None, pinned: str | None) -> Dialect:
        """Give the dialect of a session's streams."""
        return self._dialects[pinned or self._last(session)]

    def _last(self, session: SessionRow | None) -> str:
        return (session.dialect if session is not None else None) or self._default

    def about_tasks(self, method: str) -> bool:
        """Tell whether a method is a task method of any legacy dialect."""
        return method in self._having

    def _naming(self, message: Request) -> list[str]:
        """Give the legacy dialects that have the request as their own, where they are not all of them."""
        if message.method == CALL and "task" in message.params:
            return self._by_param
        return self._having.get(message.method, [])

    async def _of_task(self, message: Request, ctx: Context) -> str | None:
        """Give the dialect that the client of the request's task spoke when it made it."""
        for field in self._named_by:
            if (task_id := rawjson.string(message.params.get(field))) is not None:
                row = (await self._ledger.lookup(ctx.caller.key, task_id)).row
                return row.client_dialect if row is not None else None
        return None
