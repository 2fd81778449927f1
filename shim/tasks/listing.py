"""A caller's own tasks, page by page (LL-LIST)."""

import asyncio
from collections.abc import Sequence

from shim.callers.keys import Keys
from shim.hub.status import TERMINAL
from shim.ledger.records import TaskRow
from shim.tasks.observe import Observer
from shim.tasks.room import Room
from shim.upstreams.base import Context
from shim.wire.errors import ShimError, invalid_params

_PURPOSE = "cursor"


class Listing:
    """Pages through the ledger; the cursor is bound to the caller and says nothing to anyone else."""

    def __init__(self, room: Room, observer: Observer, keys: Keys) -> None:
        self._room = room
        self._observer = observer
        self._keys = keys

    async def page(
        self, ctx: Context, cursor: str | None, client_session: str | None
    ) -> tuple[Sequence[TaskRow], str | None]:
        """Give a page, newest first, and the cursor of the next one if there is more. Raises ShimError."""
        if ctx.caller.kind == "none":
            return (), None
        after = None if cursor is None else self._open(ctx, cursor)
        size = self._room.config.legacy.page_size
        rows = await self._room.ledger.list_tasks(
            ctx.caller.key, after=after, limit=size + 1, client_session=client_session
        )
        page, more = rows[:size], len(rows) > size
        return await self._refreshed(ctx, page), self._seal(ctx, page[-1].pk) if more else None

    async def _refreshed(self, ctx: Context, rows: Sequence[TaskRow]) -> Sequence[TaskRow]:
        """Look again at the first open tasks of a page; one that cannot be had is shown as last seen."""
        open_rows = [row for row in rows if row.status not in TERMINAL]
        asked = open_rows[: self._room.config.tasks.refresh_list]
        seen = await asyncio.gather(
            *(self._observer.current(ctx, row) for row in asked), return_exceptions=True
        )
        latest: dict[int, TaskRow] = {}
        for found in seen:
            if isinstance(found, TaskRow):
                latest[found.pk] = found
            elif not isinstance(found, ShimError):
                raise found
        return [latest.get(row.pk, row) for row in rows]

    def _seal(self, ctx: Context, pk: int) -> str:
        return self._keys.sign(_PURPOSE, ctx.caller.key, str(pk))

    def _open(self, ctx: Context, cursor: str) -> int:
        payload = self._keys.verify(_PURPOSE, ctx.caller.key, cursor)
        if payload is None or not payload.isdecimal():
            raise invalid_params("params.cursor: not a cursor of this list")
        return int(payload)
