"""`subscriptions/listen` between two modern sides: own tasks only, under the ids their owner knows (MM-1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shim.config import Config
from shim.fronts.modern_seen import Asked, Seen
from shim.fronts.relay import DROPPED, Tap
from shim.fronts.vouching import Vouching
from shim.hub import rawjson
from shim.hub.codec import SECTION_1, CodecError
from shim.hub.facts import UPDATED
from shim.hub.rawjson import Members
from shim.ledger.protocol import Ledger
from shim.ledger.records import TaskRow
from shim.upstreams.base import Upstream
from shim.wire.envelope import modern_error
from shim.wire.errors import invalid_params, missing_capability
from shim.wire.jsonrpc import Notification, Response, read_upstream, write_notification
from shim.wire.subscriptions import (
    ACKNOWLEDGED,
    EVERY_TASK,
    FILTER,
    LIST_OF,
    TASK_IDS,
    strict_filter,
    strings,
)

_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Subscription:
    """What goes upstream, and the tasks that are listened to by the server's ids."""

    params: Members
    rows: Mapping[str, TaskRow] = field(default_factory=dict)


class Listening:
    """Makes a client's filter one of its own tasks, and holds the stream to it."""

    def __init__(
        self, config: Config, upstream: Upstream, ledger: Ledger, seen: Seen, vouching: Vouching
    ) -> None:
        self._limits = config.limits
        self._upstream = upstream
        self._ledger = ledger
        self._seen = seen
        self._vouching = vouching

    async def subscription(self, asked: Asked) -> Subscription | None:
        """Give what the caller may listen to; None where a task of theirs is not the server's to tell of.

        So are those that are made later: the server takes a list that is closed. Not theirs and not there are
        left out alike; the acknowledgement says what is in. Raises ShimError.
        """
        params = asked.request.params
        raw = params.get(FILTER, b"")
        if raw[:1] == b"[":
            return await self._of_names(asked, strings(raw, f"params.{FILTER}"))
        if raw[:1] != b"{":
            return Subscription(params)  # for the server to judge
        wanted = strict_filter(raw)
        if TASK_IDS not in wanted:
            return Subscription(params)
        await self._may_listen(asked)
        ids = strings(wanted[TASK_IDS], f"params.{FILTER}.{TASK_IDS}")
        if len(ids) > (at_most := self._limits.subscriptions_per_stream):
            raise invalid_params(
                f"params.{FILTER}: names more than limits.subscriptions_per_stream = {at_most}",
                limit="limits.subscriptions_per_stream",
            )
        found = [(one, await self._ledger.lookup(asked.ctx.caller.key, one)) for one in ids]
        rows = [looked.row for _, looked in found if looked.row is not None and not looked.row.purged]
        if not all(map(self._is_here, rows)):
            return None
        for one, looked in found:
            if looked.row is None:
                reason = looked.reason or "unknown_task"
                asked.ctx.trace.event("denied", reason=reason, task_id=one[:_SHOWN_CHARS])
        return self._subscribed(asked, wanted, rows)

    def tap(self, asked: Asked, rows: Mapping[str, TaskRow]) -> Tap:
        """Give what looks at the stream: ids are mapped, and of tasks only those listened to pass."""

        async def look(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if isinstance(message, Response) and message.error is not None:
                asked.ctx.trace.code = modern_error(message.error)[0]
            if not isinstance(message, Notification):
                return None
            if message.method == ACKNOWLEDGED:
                return _acknowledged(message, rows)
            if message.method == UPDATED:
                asked.ctx.trace.lenient(SECTION_1, UPDATED)
            if message.method in {UPDATED, self._upstream.dialect.methods.status_notification}:
                return await self._pushed(asked, message, rows)
            return None

        return look

    async def _of_names(self, asked: Asked, names: Sequence[str]) -> Subscription | None:
        if EVERY_TASK in names:
            await self._may_listen(asked)
            if asked.ctx.caller.kind != "none":  # equals nobody: no task is known to be its own (OWN-NONE)
                return None
        asked.ctx.trace.lenient(SECTION_1, "subscriptions/listen: a list of names")
        return self._subscribed(asked, {LIST_OF[name]: b"true" for name in names if name in LIST_OF}, ())

    def _subscribed(self, asked: Asked, wanted: Members, rows: Sequence[TaskRow]) -> Subscription:
        by_id = {row.upstream_task_id: row for row in rows}
        wanted = {key: value for key, value in wanted.items() if key != TASK_IDS}
        if by_id:
            wanted[TASK_IDS] = rawjson.encode(list(by_id))
        return Subscription({**asked.request.params, FILTER: rawjson.join(wanted)}, by_id)

    async def _may_listen(self, asked: Asked) -> None:
        if not asked.meta.declares_tasks:
            asked.ctx.trace.rule("ML-UNDECLARED")
            raise missing_capability()
        await self._vouching.ensure(asked.ctx)

    def _is_here(self, row: TaskRow) -> bool:
        here = (self._upstream.name, self._upstream.dialect.name)
        return (row.upstream, row.dialect) == here and not row.local

    async def _pushed(self, asked: Asked, message: Notification, rows: Mapping[str, TaskRow]) -> bytes | None:
        named = self._upstream.dialect.fields.task_id
        members = message.params
        if named not in members and members.get("task", b"")[:1] == b"{":
            members = rawjson.members(members["task"])
        row = rows.get(rawjson.string(members.get(named)) or "")
        if row is None:
            asked.ctx.trace.event("upstream.invalid", rule="MM-1", detail="a task that nobody listens to")
            return DROPPED
        try:
            params = await self._seen.pushed(asked.ctx, row, message.params)
        except CodecError:
            return DROPPED
        method = str(self._upstream.dialect.methods.status_notification)
        if (method, params) == (message.method, message.params):
            return None
        return write_notification(method, params)


def _acknowledged(message: Notification, rows: Mapping[str, TaskRow]) -> bytes | None:
    """Name the tasks in the server's acknowledgement as their owner knows them."""
    honoured = message.params.get(FILTER, b"")
    members = rawjson.object_or_empty(honoured)
    if TASK_IDS not in members:
        return None
    said = rawjson.decode(members[TASK_IDS])
    ids = [one for one in said if isinstance(one, str)] if isinstance(said, list) else []
    own = [rows[one].task_id for one in ids if one in rows]
    if own == said:
        return None
    params = {**message.params, FILTER: rawjson.join({**members, TASK_IDS: rawjson.encode(own)})}
    return write_notification(message.method, params)
