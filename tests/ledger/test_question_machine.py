"""A task's questions in any order: asked, answered, withdrawn, asked anew, ended.

The first answer counts, what began earlier withdraws and asks nothing, and nothing is open after the end.
"""

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from shim.hub.status import Status
from shim.ledger.records import EVERY_STATE, AskRow, InputRow
from tests.ledger.support import ledger_at, new_input, new_task, see

T = TypeVar("T")

KEYS = st.just("k")
AGO_MS = st.sampled_from([0, 1])
"""How long ago a look at the task began."""
LATER_MS = st.sampled_from([0, 1, 2])
"""How long after the step before it a look is answered."""
RARELY = st.sampled_from([False] * 9 + [True])
"""The end, which leaves little to do, comes late."""
BYS = ("update", "session")


class QuestionMachine(RuleBasedStateMachine):
    """Holds the ledger against what each step has to do."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "ledger.db"
        self.now_ms = 1_000
        self.number = 0
        self.ended = False
        self.questions: dict[str, InputRow] = {}
        self.sent: dict[str, bytes] = {}
        """The ids under which a client was asked."""
        self.open()
        self.pk = self.run(self.ledger.create_task(new_task("t", ttl_ms=None))).pk

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def open(self) -> None:
        self.ledger = ledger_at(self.path)
        self.run(self.ledger.open())

    def teardown(self) -> None:
        self.run(self.ledger.close())
        self.runner.close()
        self.folder.cleanup()

    def state(self, key: str) -> str | None:
        return self.questions[key].state if key in self.questions else None

    @rule(key=KEYS, text=st.sampled_from([b"1", b"2"]), ago_ms=AGO_MS, later_ms=LATER_MS)
    def show(self, key: str, text: bytes, ago_ms: int, later_ms: int) -> None:
        """A look that began a while ago shows a key: asked once, and anew if withdrawn before that."""
        self.now_ms += later_ms
        asked = new_input(self.pk, key, params=text, asked_ms=self.now_ms)
        before, began_ms = self.questions.get(key), self.now_ms - ago_ms
        if not self.ended:
            assert self.run(self.ledger.add_input(asked)) == self.questions.setdefault(key, asked)
        withdrawn_ms = before.withdrawn_ms if before is not None else None
        anew = withdrawn_ms is not None and withdrawn_ms < began_ms and not self.ended
        assert self.run(self.ledger.ask_again(asked, withdrawn_before_ms=began_ms)) == anew
        if anew:
            self.questions[key] = asked
            self.sent.pop(key, None)

    @rule(key=KEYS, ago_ms=AGO_MS, later_ms=LATER_MS)
    def show_no_more(self, key: str, ago_ms: int, later_ms: int) -> None:
        """A look that began a while ago lacks a key: what is open and was asked before that is closed."""
        self.now_ms += later_ms
        before, began_ms = self.questions.get(key), self.now_ms - ago_ms
        gone = before is not None and before.state == "outstanding" and before.asked_ms < began_ms
        closed = self.ledger.withdraw_input(self.pk, key, now_ms=self.now_ms, asked_before_ms=began_ms)
        assert self.run(closed) == gone
        if before is not None and gone:
            self.questions[key] = replace(before, state="closed", withdrawn_ms=self.now_ms)

    @rule(key=KEYS, response=st.sampled_from([b"yes", b"no"]), by=st.sampled_from(BYS))
    def answer(self, key: str, response: bytes, by: str) -> None:
        is_open = self.state(key) == "outstanding"
        assert self.run(self.ledger.answer_input(self.pk, key, response, by=by)) == is_open
        if is_open:
            self.questions[key] = replace(self.questions[key], state="answered", response=response, by=by)

    @rule(key=KEYS, taken=st.booleans())
    def bring_the_answer(self, key: str, *, taken: bool) -> None:
        """The server takes an answer, or would not have it."""
        self.run((self.ledger.deliver_input if taken else self.ledger.release_input)(self.pk, key))
        if self.state(key) == "answered":
            one = self.questions[key]
            self.questions[key] = (
                replace(one, state="delivered")
                if taken
                else replace(one, state="outstanding", response=None, by=None)
            )
        if not taken:
            self.sent.pop(key, None)

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        """A client is asked: under one id for as long as the question is that one."""
        key = data.draw(st.sampled_from(sorted(self.questions)))
        self.number += 1
        sent = AskRow(
            session_id="s", request_id=b"%d" % self.number, task_pk=self.pk, key=key, sent_ms=self.now_ms,
            event_id="1-1",
        )  # fmt: skip
        found = self.run(self.ledger.ask(sent, unless_since_ms=self.now_ms))
        assert found is not None
        assert found.request_id == self.sent.setdefault(key, found.request_id)

    @precondition(lambda self: not self.ended)
    @rule(now=RARELY)
    def end(self, *, now: bool) -> None:
        if not now:
            return
        self.run(see(self.ledger, self.pk, Status.COMPLETED, result=b"1", ttl_ms=None, now_ms=self.now_ms))
        self.run(self.ledger.close_inputs(self.pk))
        self.ended = True
        for key, one in self.questions.items():
            if one.state != "delivered":
                self.questions[key] = replace(one, state="closed")

    @rule(now=RARELY)
    def restart(self, *, now: bool) -> None:
        if not now:
            return
        self.run(self.ledger.close())
        self.open()

    @invariant()
    def everything_is_as_it_was_left(self) -> None:
        found = self.run(self.ledger.inputs(self.pk, EVERY_STATE))
        assert {one.key: one for one in found} == self.questions

    @invariant()
    def what_a_client_may_have_open_is_known(self) -> None:
        open_there = {key for key in self.sent if self.questions[key].by != "session"}
        assert {one.key for one in self.run(self.ledger.asks("s"))} == open_there


@pytest.mark.rule("INPUT-END", "INPUT-GONE", "ML-UPDATE")
def test_the_first_answer_counts_and_only_to_what_is_open() -> None:
    run_state_machine_as_test(
        QuestionMachine, settings=settings(max_examples=100, stateful_step_count=40, deadline=None)
    )
