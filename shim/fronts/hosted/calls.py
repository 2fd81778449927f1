"""What a legacy client sends to a modern server beside tasks.

A call that the server turns into a task although the client asked for none is held until the task ends
(LM-PLAIN); questions in the middle go over the call's own stream (LM-MRTR).
"""

import asyncio

from aiohttp import web

from shim.config import Config
from shim.fronts.hosted.asking import Asking
from shim.fronts.legacy_request import Asked
from shim.fronts.legacy_verbs import answer
from shim.hub import rawjson
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.hub.status import TERMINAL, Status
from shim.ledger.records import AskRow, TaskRow
from shim.tasks.create import has_room, no_room
from shim.tasks.recording import record
from shim.tasks.service import Tasks
from shim.tasks.terminal import outcome
from shim.upstreams.base import Created, Upstream
from shim.wire.errors import UpstreamFault
from shim.wire.hosting import legacy_result, missing_resource
from shim.wire.jsonrpc import Notification, Response, write_result
from shim.wire.methods import PROGRESS
from shim.wire.modern import more_input, wants_tasks


class Calls:
    """Runs plain requests of legacy clients on one modern server."""

    def __init__(self, config: Config, upstream: Upstream, tasks: Tasks, asking: Asking) -> None:
        self._rounds = config.tasks.input_rounds
        self._keepalive_s = config.legacy.keepalive_ms / 1000
        self._upstream = upstream
        self._tasks = tasks
        self._asking = asking

    async def run(self, asked: Asked, params: Members) -> web.StreamResponse:
        """Answer one request; `params` are the client's without what belongs to its era."""
        made = await self._send(asked, params)
        for _ in range(self._rounds):
            more = more_input(made.result) if isinstance(made, Response) else None
            if more is None:
                break
            asked.ctx.trace.rule("LM-MRTR")
            for one in more.lenient:
                asked.ctx.trace.lenient(one.rule, one.detail)
            responses = await self._asking.call(asked.ctx, asked.session, more.requests, asked.reply.event)
            made = await self._send(asked, more.retry(params, responses))
        if not isinstance(made, Response):
            return await self._held(asked, made)
        if made.result is None:
            return await self.say(asked, made)
        if more_input(made.result) is not None:
            raise UpstreamFault("the server asked again and again (tasks.input_rounds)")
        return await self.say(asked, made)

    async def say(self, asked: Asked, response: Response) -> web.StreamResponse:
        """Send a server's answer as legacy clients know it."""
        if response.result is None:
            return await asked.reply.send(
                answer(asked.message.id, missing_resource(response, asked.message.method))
            )
        result, dropped = legacy_result(response.result)
        if dropped is not None:
            asked.ctx.trace.loss("LM-LOCAL", dropped)
        return await self.give(asked, result)

    async def give(self, asked: Asked, result: bytes) -> web.StreamResponse:
        """Send a result; a list's cursor says whose it is where no session does (CUTOVER-STAY)."""
        if asked.session is None:
            origins, caller = self._tasks.origins, asked.ctx.caller
            result = origins.named(caller, self._upstream.name, asked.message.method, result) or result
        return await asked.reply.send(write_result(asked.message.id, result))

    async def _send(self, asked: Asked, params: Members) -> Response | TaskRow:
        if asked.message.method != CALL:
            return await self._upstream.plain(asked.ctx, asked.message.method, params)
        call = asyncio.create_task(self._called(asked, params), name="call")
        self._tasks.room.keep(call)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            asked.ctx.notify = None
            self._tasks.room.leave(call)
            raise

    async def _called(self, asked: Asked, params: Members) -> Response | TaskRow:
        """Call a tool; a task that comes of it is written down, also when its client has left (ML-CLOSE)."""
        ctx, room = asked.ctx, self._tasks.room
        ctx.takes_tasks = await has_room(room, ctx)
        made = await self._upstream.create(ctx, params, None)
        if not isinstance(made, Created):
            if not ctx.takes_tasks and wants_tasks(made.response.error):
                raise no_room(ctx)
            return made.response
        return await record(
            room, ctx, self._upstream, made.reading, session_id=None, driven=False,
            tool=rawjson.string(params.get("name")), meta=made.meta,
        )  # fmt: skip

    async def _held(self, asked: Asked, row: TaskRow) -> web.StreamResponse:
        """Wait for the end of a task that the client did not ask for, and answer with what it gave."""
        asked.ctx.trace.rule("LM-PLAIN")
        await asked.reply.open_stream()
        row = await _Hold(asked, self._tasks, self._asking, self._keepalive_s).ended(row)
        row = await self._tasks.ended(asked.ctx, row)
        return await self.say(asked, outcome(row))


class _Hold:
    """A call that waits for its task: questions and progress go over the call's own stream."""

    def __init__(self, asked: Asked, tasks: Tasks, asking: Asking, keepalive_s: float) -> None:
        self._asked = asked
        self._tasks = tasks
        self._asking = asking
        self._keepalive_s = keepalive_s
        self._sent: dict[str, AskRow] = {}
        self._steps = 0

    async def ended(self, row: TaskRow) -> TaskRow:
        """Wait, and say what happens meanwhile. Raises ClientFault where the task has expired.

        While the shim stops, a task that waits for an answer is waited for no more: none gets through.
        Raises UpstreamFault then.
        """
        asked, message, hand_back = self._asked, row.status_message, self._tasks.hand_back
        with self._tasks.watchers.watching(row) as changed, hand_back.waking(changed):
            while row.status not in TERMINAL:
                changed.clear()
                await self._ask(row)
                if row.status_message != message:
                    message = row.status_message
                    await self._progress(message)
                if hand_back.stopping.is_set() and row.status is Status.INPUT_REQUIRED:
                    raise _stopped(row)
                try:
                    async with asyncio.timeout(self._keepalive_s):
                        await changed.wait()
                except TimeoutError:
                    await asked.reply.comment()
                row = await self._tasks.watchers.latest(row)
        await self._ask(row)  # calls off what was asked and not answered (INPUT-END)
        return row

    async def _ask(self, row: TaskRow) -> None:
        """Send what the task asks to a client that can answer: one with a session."""
        if (session := self._asked.session) is not None:
            await self._asking.task(row, session, self._asked.reply.event, self._sent, related=False)

    async def _progress(self, message: str | None) -> None:
        """Say a task's statusMessage as progress, to a client that asked for it."""
        token = self._asked.ctx.progress_token
        if token is None or message is None:
            return
        self._steps += 1
        params = {
            "progressToken": token,
            "progress": rawjson.encode(self._steps),
            "message": rawjson.encode(message),
        }
        await self._asked.reply.notify(Notification(PROGRESS, params))


def _stopped(row: TaskRow) -> UpstreamFault:
    where = f"task {row.task_id} waits for an answer and goes on: tasks/list has it"
    return UpstreamFault(f"the shim stopped before the call had ended; {where}", 503)
