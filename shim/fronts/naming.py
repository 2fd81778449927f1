"""Tasks that go by another id than the server's own: what is relayed names the right one (OWN-ID-MAP)."""

from typing import TypeVar

from msgspec.structs import replace

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.ledger.protocol import Ledger
from shim.ledger.records import TaskRow
from shim.upstreams.base import Context, Upstream
from shim.wire.envelope import related_task_of, with_related_task
from shim.wire.jsonrpc import Message, Notification, Request, Response

Asking = TypeVar("Asking", bound=Request | Notification)
Said = TypeVar("Said", bound=Message)


class Names:
    """Puts one id in the place of the other, in what a session's two ends say to each other."""

    def __init__(self, ledger: Ledger, upstream: Upstream) -> None:
        self._ledger = ledger
        self._upstream = upstream

    def named(self, message: Request | Notification) -> str | None:
        """Give the task that a server's message is about, by the server's id."""
        if message.method == self._upstream.dialect.methods.status_notification:
            return self._upstream.dialect.named(message.params)
        return related_task_of(message.params)

    async def renamed(self, upstream_task_id: str, session_id: str) -> TaskRow | None:
        """Give the session's task that the server calls so, if its client knows it by another id."""
        rows = await self._ledger.renamed(self._upstream.name, upstream_task_id)
        return next((row for row in rows if row.session_id == session_id), None)

    async def outwards(self, message: Asking, session_id: str) -> Asking | None:
        """Give a server's message as the client has to read it; None where it may pass as it is."""
        named = self.named(message)
        row = await self.renamed(named, session_id) if named is not None else None
        if row is None:
            return None
        params = message.params
        if related_task_of(params) == row.upstream_task_id:
            params = _related_to(params, row.task_id)
        if self._upstream.dialect.named(params) == row.upstream_task_id:
            params = {**params, **self._upstream.dialect.naming(row.task_id)}
        return replace(message, params=params)

    async def inwards(self, message: Said, ctx: Context) -> Said:
        """Give a client's message as the server has to read it."""
        if isinstance(message, Response):
            if message.result is None:
                return message
            params = rawjson.members(message.result)
        else:
            params = message.params
        task_id = related_task_of(params)
        if task_id is None:
            return message
        row = (await self._ledger.lookup(ctx.caller.key, task_id)).row
        if row is None or row.task_id == row.upstream_task_id:
            return message
        params = _related_to(params, row.upstream_task_id)
        if isinstance(message, Response):
            return replace(message, result=rawjson.join(params))
        return replace(message, params=params)


def _related_to(params: Members, task_id: str) -> Members:
    return rawjson.members(with_related_task(rawjson.join(params), task_id))
