"""A conversation that runs: the server, the shim, the seats, and what every answer is held against."""

import asyncio
import json
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Coroutine, Iterator, MutableMapping
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant
from structlog.testing import capture_logs

from shim.app import running
from tests.client import LegacyClient, ModernClient, Reply
from tests.corners.lm import BOB
from tests.corners.ml import ALICE, breath
from tests.fuzz.conversation.model import CALLERS, ENDED, Job, World, Wrong, hold
from tests.fuzz.conversation.peer import Peer
from tests.fuzz.conversation.seat import SEATS, Modern, Seat, Stream
from tests.scripted import Broken, Scripted, scripted
from tests.shim import config_for

T = TypeVar("T")

FRESH_MS = 1_001
"""After so much time nothing that was seen before is used again."""
_ANSWER_S = 30
_PATIENCE_S, _MOMENT_MS = 0.01, 20
"""What is not done in the one, of real time, is let have the other by the clock."""
_CREDENTIALS = {"alice": ALICE, "bob": BOB}
_PAGE = 3
FAMILY = frozenset((-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022, -32042))
"""The codes of errors that are the shim's own."""
_SERVERS_OWN = frozenset((-32000, 0))
EXPIRED = "Failed to retrieve task: Task has expired"
NOT_FOUND = "Failed to retrieve task: Task not found"


class Talk(RuleBasedStateMachine):
    """The parts of a conversation; what is said in it stands in the classes above."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.runs = 0
        self.world = World()
        self.clock = self.world.clock
        self.stack = AsyncExitStack()
        self.log = ExitStack()
        self.logged = self.log.enter_context(capture_logs())
        self.inner = AsyncExitStack()
        self.seats: dict[tuple[str, str], Seat] = {}
        self.ends: dict[str, str] = {}
        """The end that the ledger had of each task, by its id."""
        self.unheard: list[str] = []
        """Failures that nobody waited for."""
        self.runner.get_loop().set_exception_handler(self._unheard)
        self.step = 0
        self.told_in: dict[str, int] = {}
        """The step in which each task's end was told, by its handle."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something; what takes too long is as wrong as what is answered wrongly."""

        async def bounded() -> T:
            async with asyncio.timeout(_ANSWER_S):
                doing = asyncio.create_task(work)
                try:
                    while not (await asyncio.wait((doing,), timeout=_PATIENCE_S))[0]:
                        self.clock.advance(_MOMENT_MS)  # it waits for time to pass
                    return await doing
                finally:
                    doing.cancel()

        try:
            return self.runner.run(bounded())
        except TimeoutError as exc:
            raise Wrong("no answer") from exc

    def _unheard(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.unheard.append(f"{context['message']}: {context.get('exception')!r}")

    # -- the parts -------------------------------------------------------------------------------

    def make_peer(self, server: Scripted, **flags: bool) -> Peer:
        """Make the server."""
        raise NotImplementedError

    async def set_up(self, sessions: bool, **flags: bool) -> None:  # noqa: FBT001 - a server's property
        """Run the server and a shim in front of it."""
        self.server = await self.stack.enter_async_context(scripted(sessions=sessions))
        self.peer = self.make_peer(self.server, **flags)
        await self.start()

    @property
    def ledger_path(self) -> Path:
        """Where the ledger of this run is."""
        return Path(self.folder.name) / "ledger.db"

    async def start(self) -> None:
        """Run a shim; clients go on with the sessions they have."""
        config = config_for(
            self.server.url, Path(self.folder.name),
            upstream={"dialect": self.peer.dialect, "tool_support": self.peer.tool_support},
            ledger={"synchronous": "normal"}, legacy={"page_size": _PAGE},
        )  # fmt: skip
        self.app = await self.inner.enter_async_context(running(config, clock=self.clock))
        for seat in self.seats.values():
            seat.client.url = self.url(seat.name)

    def url(self, name: str) -> str:
        """Give the address of a seat."""
        return self.app.url.replace("/mcp", "/create-status") if name == "four" else self.app.url

    async def stop(self, *, kill: bool = False) -> None:
        """Stop the shim; with `kill` the server hears nothing of it, and what is on disk then is kept."""
        for stream in self.all_streams():
            stream.excused = True
        if kill:
            self.server.away = Broken()
            _keep(self.ledger_path)
            self.world.kills += 1
        await self.inner.aclose()
        self.inner = AsyncExitStack()
        if kill:
            _put_back(self.ledger_path)
            self.server.away = None
        for seat in self.seats.values():
            for stream in list(seat.streams):
                self.hear(stream)
                await seat.leave(stream)

    def teardown(self) -> None:
        try:
            self.run(self._end())
        finally:
            self.log.close()
            self.runner.close()
            self.folder.cleanup()

    async def _end(self) -> None:
        for seat in self.seats.values():
            await seat.close()
        await self.inner.aclose()
        if hasattr(self, "peer"):
            await self.peer.close()
        await self.stack.aclose()

    def seat(self, caller: str, name: str) -> Seat:
        """Give a caller's seat, which begins to speak when it is first taken."""
        found = self.seats.get((caller, name))
        if found is None:
            found = self.run(self._seated(caller, name))
        return found

    async def _seated(self, caller: str, name: str) -> Seat:
        client_type = ModernClient if SEATS[name] is Modern else LegacyClient
        client = client_type(self.url(name), headers=_CREDENTIALS[caller])
        seat = self.seats[caller, name] = SEATS[name](caller, await self.stack.enter_async_context(client))
        if (reply := await seat.begin()) is not None:
            self.sound(seat, reply)
        return seat

    def other(self, caller: str) -> str:
        """Give the other caller."""
        return CALLERS[1 - CALLERS.index(caller)]

    def job(self, place: int) -> Job:
        """Give one of the tasks that were handed out."""
        jobs = self.world.handed_out()
        return jobs[place % len(jobs)]

    def all_streams(self) -> Iterator[Stream]:
        """Give every stream that a client reads."""
        for seat in self.seats.values():
            yield from seat.streams

    async def tick(self) -> None:
        """Let a moment pass, and the shim do what is due in it."""
        self.clock.advance(FRESH_MS)
        await breath(self.app)

    # -- what every answer is held against -------------------------------------------------------

    def sound(self, seat: Seat, reply: Reply) -> dict[str, Any] | None:
        """Hold that an answer is one of its API, to whom it goes, and no internal error; gives its result.

        None for an error.
        """
        self.own(seat, reply.body)
        hold(b"internal error of the shim" not in reply.body, "an internal error:", reply.body)
        hold(reply.status not in {500, 504}, "an internal error:", reply.status, reply.body)
        if not reply.body:
            hold(reply.status in {200, 202}, "an empty answer:", reply.status)
            return None
        message = reply.json
        if "error" in message:
            self.error(message["error"])
            return None
        hold(reply.status == 200, "a result that is none:", reply.status, reply.body)
        result: dict[str, Any] = message["result"]
        seat.speaks(result)
        return result

    def error(self, error: dict[str, Any]) -> None:
        """Hold that an error is of the family that is defined."""
        hold(error["code"] in FAMILY | _SERVERS_OWN and error["message"], "an error of no family:", error)

    def own(self, seat: Seat, body: bytes) -> None:
        """Hold that a message says nothing of what is another caller's."""
        foreign = list(self.world.foreign_names(body, seat.caller))
        hold(not foreign, "a foreign task is shown:", seat.caller, seat.name, foreign, body)

    def hear(self, stream: Stream) -> None:
        """Hold what came on a stream against the model."""
        raise NotImplementedError

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def all_is_as_the_model(self) -> None:
        """Hold what the server got, what the clients' streams said, and the rows on disk."""
        if not hasattr(self, "peer"):
            return
        self.step += 1
        failures = [_written(one) for one in self.logged if one["log_level"] in {"error", "critical"}]
        hold(not self.unheard and not failures, "a failure of the shim's own:", *self.unheard, *failures)
        for job in self.world.handed_out():
            if job.end is not None:
                self.told_in.setdefault(job.handle, self.step)
        self.run(breath(self.app))
        self.peer.check()
        for stream in list(self.all_streams()):
            self.hear(stream)
        self._hold_ledger()

    def _hold_ledger(self) -> None:
        """Hold the rows on disk against what clients were given and told."""
        with closing(sqlite3.connect(f"file:{self.ledger_path}?mode=ro", uri=True)) as disk:
            rows = {
                row[0]: row[1:]
                for row in disk.execute("SELECT task_id, caller, status, purged_ms IS NOT NULL FROM task")
            }
            inputs = list(disk.execute(
                "SELECT task_id, params, state FROM input JOIN task ON task_pk = pk WHERE purged_ms IS NULL"
            ))  # fmt: skip
        self._rows(rows)
        for handle, params, state in inputs:
            question = self.world.question(json.loads(params)["message"])
            hold(
                question.job and question.job.handle == handle,
                "a question stands under another task:",
                question.name,
            )
            if question.reached:
                hold(state != "outstanding", "an answered question is open in the ledger:", question.name)

    def _rows(self, rows: dict[str, tuple[str, str, bool]]) -> None:
        callers: dict[str, set[str]] = {one: set() for one in CALLERS}
        for job in self.world.handed_out():
            hold(job.handle in rows, "a handle that was given is not in the ledger:", job.handle)
            caller, status, purged = rows[job.handle]
            callers[job.owner].add(caller)
            if purged:
                hold(job.is_over(self.clock.now_ms()), "a task was purged before its time:", job.handle)
                continue
            if status in ENDED:
                hold(
                    status in job.may_end() | {job.end},
                    "an end that never came is in the ledger:",
                    job.handle,
                    status,
                )
                first = self.ends.setdefault(job.handle, status)
                hold(first == status, "an end has changed in the ledger:", job.handle, first, "->", status)
            else:
                hold(job.handle not in self.ends, "an ended task is open again in the ledger:", job.handle)
                hold(
                    job.end is None or job.is_passed, "a told end is not in the ledger:", job.handle, job.end
                )
        hold(all(len(ids) <= 1 for ids in callers.values()), "a caller has several names:", callers)
        hold(callers["alice"].isdisjoint(callers["bob"]), "two callers have one name:", callers)
        strange = set(rows) - {job.handle for job in self.world.jobs} - self.unclaimed()
        hold(not strange, "a row of no task:", strange)

    def unclaimed(self) -> set[str]:
        """Give the ids of tasks whose handles nobody was given: their clients left too soon."""
        return {job.name for job in self.world.jobs if not job.handle}


def _written(logged: MutableMapping[str, Any]) -> str:
    """Write down what the shim logged, with where it came from."""
    exception = logged.get("exc_info")
    came = traceback.format_exception(exception) if isinstance(exception, BaseException) else [str(exception)]
    return f"{logged['event']}: {''.join(came)}"


def _keep(ledger: Path) -> None:
    """Keep a ledger as it is on disk now."""
    kept = ledger.with_name("kept")
    kept.mkdir()
    for path in ledger.parent.glob(f"{ledger.name}*"):
        shutil.copy(path, kept)


def _put_back(ledger: Path) -> None:
    """Put a ledger back as it was kept."""
    kept = ledger.with_name("kept")
    for path in ledger.parent.glob(f"{ledger.name}*"):
        path.unlink()
    for path in kept.iterdir():
        path.rename(ledger.with_name(path.name))
    kept.rmdir()
