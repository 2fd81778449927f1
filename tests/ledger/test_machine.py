"""Two callers and nobody over one ledger, in any order: no foreign task leaves, no end ever changes."""

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from shim.hub.status import TERMINAL, Status
from shim.ledger.protocol import NOBODY, IdCollision
from shim.ledger.records import Observed
from tests.ledger.support import ALICE, BOB, ledger_at, new_task, on_disk, purge_at, see

T = TypeVar("T")

CALLERS = (ALICE, BOB, NOBODY)
IDS = [f"id-{n}" for n in range(6)]
_RETENTION_MS = 10_000
_TOMBSTONE_MS = 5_000


@dataclass
class Known:
    """What the test knows of a task."""

    pk: int
    caller: str
    ended: tuple[Status, bytes | None] | None = None
    expired: bool = False


class LedgerMachine(RuleBasedStateMachine):
    """Holds what was said against what is given."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger.db"
        self.now_ms = 1_000
        self.tasks: dict[str, Known] = {}
        self.open()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def open(self) -> None:
        # fewer rows than tasks, so that memory and disk both answer
        self.ledger = ledger_at(self.path, cache_rows=3)
        self.run(self.ledger.open())

    def teardown(self) -> None:
        self.run(self.ledger.close())
        self.runner.close()
        self.folder.cleanup()

    ids = Bundle("ids")

    @rule(target=ids, task_id=st.sampled_from(IDS), caller=st.sampled_from(CALLERS))
    def create(self, task_id: str, caller: str) -> str:
        new = new_task(task_id, caller=caller, ttl_ms=None, first_seen_ms=self.now_ms)
        try:
            row = self.run(self.ledger.create_task(new))
        except IdCollision:
            assert task_id in self.tasks
        else:
            assert task_id not in self.tasks
            self.tasks[task_id] = Known(row.pk, caller)
        return task_id

    @rule(
        task_id=ids, statuses=st.lists(st.sampled_from(Status), min_size=1, max_size=5), leaves=st.booleans()
    )
    def observe(self, task_id: str, statuses: list[Status], *, leaves: bool) -> None:
        """Several observe at the same moment; the first of them may leave before it hears what came of it."""
        known = self.tasks.get(task_id)
        if known is None:
            return

        async def race() -> list[Observed]:
            tasks = [
                asyncio.create_task(see(self.ledger, known.pk, one, result=str(n).encode(), ttl_ms=None,
                                        now_ms=self.now_ms))
                for n, one in enumerate(statuses)
            ]  # fmt: skip
            await asyncio.sleep(0)
            if leaves:
                tasks[0].cancel()
            seen = await asyncio.gather(*tasks, return_exceptions=True)
            await self.ledger.set_session(known.pk, "later")  # so that the one who left has been written
            return [one for one in seen if isinstance(one, Observed)]

        seen = self.run(race())
        assert len(seen) == len(statuses) - leaves
        if known.ended is None:
            ends = [(one, str(n).encode()) for n, one in enumerate(statuses) if one in TERMINAL]
            known.ended = ends[0] if ends else None
        for one in seen:
            if one.row.status in TERMINAL:
                assert known.ended is not None
                assert one.row.status is known.ended[0]

    @rule(task_id=ids)
    def expire(self, task_id: str) -> None:
        known = self.tasks.get(task_id)
        if known is not None:
            self.run(self.ledger.expire(known.pk, self.now_ms))
            known.expired = True
            known.ended = known.ended or (Status.FAILED, None)

    @rule(by_ms=st.sampled_from([1, _TOMBSTONE_MS, _RETENTION_MS]))
    def time_passes(self, by_ms: int) -> None:
        self.now_ms += by_ms
        gone, _ = self.run(
            purge_at(self.ledger, self.now_ms, retention_ms=_RETENTION_MS, tombstone_ms=_TOMBSTONE_MS)
        )
        for task_id in gone:
            assert self.tasks[task_id].ended is not None
            self.tasks[task_id].expired = True
        left = {row[0] for row in on_disk(self.path, "SELECT task_id FROM task")}
        for task_id in set(self.tasks) - left:
            assert self.tasks.pop(task_id).expired
        assert left == set(self.tasks)

    @rule()
    def restart(self) -> None:
        self.run(self.ledger.close())
        self.open()

    @rule(caller=st.sampled_from(CALLERS), task_id=st.sampled_from([*IDS, "unknown"]))
    def ask(self, caller: str, task_id: str) -> None:
        found = self.run(self.ledger.lookup(caller, task_id))
        known = self.tasks.get(task_id)
        if known is None:
            assert (found.row, found.reason) == (None, "unknown_task")
        elif known.caller != caller:
            assert (found.row, found.reason) == (None, "not_owner")
        else:
            assert found.row is not None
            assert (found.row.pk, found.row.purged) == (known.pk, known.expired)

    @rule(caller=st.sampled_from(CALLERS), limit=st.integers(1, 4))
    def page_through(self, caller: str, limit: int) -> None:
        async def pages() -> list[str]:
            ids: list[str] = []
            after = None
            while page := await self.ledger.list_tasks(caller, after=after, limit=limit):
                assert len(page) <= limit
                ids += [row.task_id for row in page]
                after = page[-1].pk
            return ids

        own = sorted(
            ((known.pk, task_id) for task_id, known in self.tasks.items()
             if known.caller == caller != NOBODY and not known.expired),
            reverse=True,
        )  # fmt: skip
        assert self.run(pages()) == [task_id for _, task_id in own]

    @invariant()
    def an_end_stays_as_it_was(self) -> None:
        for known in self.tasks.values():
            row = self.run(self.ledger.own_task(known.pk))
            if known.ended is None:
                assert row.status not in TERMINAL
            else:
                assert (row.status, row.result) == (known.ended[0], None if known.expired else known.ended[1])

    @invariant()
    def open_tasks_are_counted(self) -> None:
        for caller in CALLERS:
            is_open = [one for one in self.tasks.values() if one.caller == caller and one.ended is None]
            assert self.run(self.ledger.open_count_by_caller(caller)) == len(is_open)


@pytest.mark.rule("HUB-1", "HUB-2", "OWN-CHECK", "OWN-NONE", "LL-LIST", "DUR-4")
def test_no_foreign_task_leaves_and_no_end_changes() -> None:
    run_state_machine_as_test(
        LedgerMachine, settings=settings(max_examples=40, stateful_step_count=30, deadline=None)
    )
