"""A call that runs behind a handle of the shim's, or is about to."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from shim.hub.rawjson import Members
from shim.hub.status import Status
from shim.tasks.overheard import Overheard
from shim.tasks.terminal import End, error
from shim.upstreams.base import Answered, Context, Created, Upstream
from shim.wire.errors import INTERNAL
from shim.wire.modern import MoreInput, bare_result, more_input

Made = Created | Answered


@dataclass(slots=True)
class Run:
    """What the call needs, and how far it got."""

    ctx: Context
    upstream: Upstream
    params: Members
    ttl_ms: int | None
    send: Callable[[Members], Awaitable[Made]]
    overheard: Overheard
    driven: bool = False
    first: asyncio.Task[Made] | None = None
    work: asyncio.Task[None] | None = None
    answers: dict[str, bytes] = field(default_factory=dict)
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def begun(self) -> Made:
        """Send the call as its client made it."""
        return await self.send(self.params)

    def leave(self) -> None:
        """Leave the call: the first request, while it is open, else what came of it."""
        if self.first is not None and not self.first.done():
            self.first.cancel()
        elif self.work is not None:
            self.work.cancel()

    def more(self, made: Made) -> MoreInput | None:
        """Read an answer that asks before it goes on, as a modern server may. Raises UpstreamFault."""
        return more_input(made.response.result) if isinstance(made, Answered) and self._is_modern else None

    def end(self, made: Answered) -> End:
        """Give the end that an answer is."""
        response = made.response
        if response.result is None:
            return End(Status.FAILED, error=response.error)
        if self.more(made) is not None:
            message = "the server asked again and again (tasks.input_rounds)"
            return End(Status.FAILED, error=error(INTERNAL, message))
        return End(
            Status.COMPLETED, result=bare_result(response.result) if self._is_modern else response.result
        )

    @property
    def _is_modern(self) -> bool:
        return self.upstream.dialect.era == "modern"


def unattended(ctx: Context, overheard: Overheard) -> Context:
    """Give the context of a call whose client may leave: what it says is overheard."""
    return replace(ctx, notify=overheard.heard, progress_token=b'"progress"')
