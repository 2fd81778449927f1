"""What a call behind a handle says on its way: progress, and what a legacy server asks (PROMOTE-2)."""

import asyncio
from dataclasses import dataclass, field, replace

from shim.hub import rawjson
from shim.ledger.records import InputRow
from shim.tasks.questions import Questions
from shim.upstreams.base import Context, Question
from shim.wire.envelope import legacy_error
from shim.wire.errors import INTERNAL
from shim.wire.jsonrpc import Notification
from shim.wire.methods import PROGRESS


@dataclass(slots=True)
class Overheard:
    """Takes it to the client's open call until there is a handle, then into the task. Implements `Asking`."""

    questions: Questions
    client: Context
    called_off: bool = False
    asks: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the server asks something: there has to be a task now that can show it."""
    _settled: asyncio.Event = field(default_factory=asyncio.Event)
    _pk: int | None = None
    _reported: str | None = None
    """What it last said of its progress before there was a handle."""
    _open: dict[bytes, Question] = field(default_factory=dict)

    async def settled(self, pk: int | None) -> None:
        """Take it that the call is a task now, or (None) that it becomes none."""
        self._pk = pk
        self._settled.set()
        if pk is not None and self._reported is not None:
            await self.questions.progress(pk, self._reported)

    async def heard(self, message: Notification) -> None:
        """Take a notification of the call (ML-PROGRESS)."""
        text = rawjson.string(message.params.get("message")) if message.method == PROGRESS else None
        if self._pk is None:
            self._reported = text or self._reported
            await self._pass(message)
        elif text:
            await self.questions.progress(self._pk, text)

    async def question(self, question: Question) -> None:
        """Take a question that the server asks in the middle of the call."""
        self._open[question.request.id] = question
        self.asks.set()
        await self._settled.wait()
        if self._open.get(question.request.id) is not question:
            return  # it was called off meanwhile
        if self._pk is None:
            await question.refuse(INTERNAL, "the call has ended")
            return
        await self.questions.question(replace(question, task_pk=self._pk))

    def withdrawn(self, request_id: bytes) -> None:
        """Forget a question that the server called off."""
        self._open.pop(request_id, None)

    async def answer(self, ctx: Context, asked: InputRow) -> bool:
        """Bring an answer to the server; False where it is not taken. Raises SessionLost, UpstreamFault."""
        rid = asked.upstream_id or b""
        question = self._open.get(rid)
        if question is None:
            return False
        taken = await question.answer(ctx, asked.response or b"{}")
        if self._open.get(rid) is question:  # some servers ask the next under the same id at once
            del self._open[rid]
        return taken

    async def refuse(self, asked: InputRow, error: bytes | None) -> None:
        """Tell the server that the client refused its question, as the client said it."""
        question = self._open.pop(asked.upstream_id or b"", None)
        if question is not None:
            await question.refuse(*legacy_error(error or b"{}")[:2])

    async def _pass(self, message: Notification) -> None:
        """Pass a notification to a client that still waits for an answer."""
        notify, token, params = self.client.notify, self.client.progress_token, message.params
        if notify is None:
            return
        if message.method == PROGRESS:
            if token is None:
                return
            params = {**params, "progressToken": token}
        await notify(Notification(message.method, params))
