import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from shim.hub.status import Status
from shim.ledger.records import EVERY_STATE, AskRow, InputRow
from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import ledger_at, new_input, new_task, on_disk, see


async def test_a_question_comes_back_as_it_was_written(ledger: SqliteLedger) -> None:
    asked = new_input(1, "k", upstream_id=b'"q"', session_id="s")
    assert await ledger.add_input(asked) == asked
    assert await ledger.inputs(1) == [asked]
    assert await ledger.input_by_upstream_id("s", b'"q"') == asked
    assert await ledger.input_by_upstream_id("s", b'"r"') is None
    assert await ledger.input_by_upstream_id("t", b'"q"') is None


@pytest.mark.rule("ML-INPUT")
async def test_the_same_question_twice_is_one_question(ledger: SqliteLedger) -> None:
    first = await ledger.add_input(new_input(1, "a", upstream_id=b"7", session_id="s"))
    again = new_input(1, "b", upstream_id=b"7", session_id="s", asked_ms=9_000)
    both = await asyncio.gather(ledger.add_input(again), ledger.add_input(again))
    assert set(both) == {first}
    assert await ledger.inputs(1) == [first]


@pytest.mark.rule("ML-INPUT")
@pytest.mark.parametrize("delivered", [False, True])
async def test_an_id_comes_again_for_the_next_question(ledger: SqliteLedger, *, delivered: bool) -> None:
    await ledger.add_input(new_input(1, "a", upstream_id=b"7", session_id="s"))
    await ledger.answer_input(1, "a", b"{}", by="x")
    if delivered:
        await ledger.deliver_input(1, "a")
    second = new_input(1, "b", upstream_id=b"7", session_id="s")
    assert await ledger.add_input(second) == second
    assert await ledger.input_by_upstream_id("s", b"7") == second
    assert [one.key for one in await ledger.undelivered()] == ([] if delivered else ["a"])


@pytest.mark.rule("ML-INPUT")
async def test_another_question_under_an_outstanding_id_closes_it(ledger: SqliteLedger) -> None:
    await ledger.add_input(new_input(1, "a", upstream_id=b"7", session_id="s"))
    other = new_input(1, "b", upstream_id=b"7", session_id="s", params=b'{"message":"!"}')
    assert await ledger.add_input(other) == other
    assert await ledger.inputs(1) == [other]
    assert [one.key for one in await ledger.inputs(1, ("closed",))] == ["a"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (new_input(1, "k"), new_input(2, "k")),
        (new_input(1, "k"), new_input(1, "l")),
        (
            new_input(1, "k", upstream_id=b"1", session_id="s"),
            new_input(1, "l", upstream_id=b'"1"', session_id="s"),
        ),
        (
            new_input(1, "k", upstream_id=b"1", session_id="s"),
            new_input(1, "l", upstream_id=b"1", session_id="t"),
        ),
        (
            new_input(1, "k", upstream_id=b"1", session_id="s"),
            new_input(2, "k", upstream_id=b"1", session_id="s"),
        ),
    ],
)
async def test_other_questions_are_others(ledger: SqliteLedger, first: InputRow, second: InputRow) -> None:
    assert await ledger.add_input(first) == first
    assert await ledger.add_input(second) == second


async def test_a_taken_key_gives_the_first_one_with_it(ledger: SqliteLedger) -> None:
    first = await ledger.add_input(new_input(1, "k", upstream_id=b"1", session_id="s"))
    other = await ledger.add_input(new_input(1, "l", upstream_id=b"2", session_id="s"))
    assert await ledger.add_input(new_input(1, "k")) == first
    # its own upstream id says more than a key that someone else took
    assert await ledger.add_input(new_input(1, "k", upstream_id=b"2", session_id="s")) == other


@pytest.mark.rule("ML-UPDATE")
async def test_one_of_many_answers_is_taken(ledger: SqliteLedger) -> None:
    asked = await ledger.add_input(new_input(1, "k"))
    won = await asyncio.gather(*(ledger.answer_input(1, "k", str(n).encode(), by="update") for n in range(5)))
    assert won == [True, False, False, False, False]
    assert await ledger.inputs(1) == []
    answered = replace(asked, state="answered", response=b"0", by="update")
    assert await ledger.inputs(1, ("answered",)) == await ledger.undelivered() == [answered]


@pytest.mark.rule("DUR-1", "DUR-2")
async def test_an_answer_waits_for_its_delivery_over_a_restart(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    for key in "abc":
        await ledger.add_input(new_input(1, key))
    await ledger.answer_input(1, "b", b"{}", by="update")
    await ledger.answer_input(1, "c", b"{}", by="update")
    await ledger.deliver_input(1, "c")
    await ledger.close()

    again = ledger_at(path)
    await again.open()
    assert [one.key for one in await again.inputs(1)] == ["a"]
    assert [one.key for one in await again.undelivered()] == ["b"]
    assert [one.key for one in await again.inputs(1, ("delivered",))] == ["c"]
    await again.deliver_input(1, "b")
    assert await again.undelivered() == []
    await again.close()


async def test_what_was_not_answered_cannot_be_delivered(ledger: SqliteLedger) -> None:
    await ledger.add_input(new_input(1, "k"))
    await ledger.deliver_input(1, "k")
    assert [one.state for one in await ledger.inputs(1, EVERY_STATE)] == ["outstanding"]
    assert not await ledger.answer_input(1, "other", b"{}", by="update")


async def test_every_change_is_seen_at_once(ledger: SqliteLedger) -> None:
    async def states() -> list[str]:
        return [one.state for one in await ledger.inputs(1, EVERY_STATE)]

    assert await states() == []
    await ledger.add_input(new_input(1, "a"))
    assert await states() == ["outstanding"]
    await ledger.answer_input(1, "a", b"{}", by="update")
    assert await states() == ["answered"]
    await ledger.deliver_input(1, "a")
    await ledger.add_input(new_input(1, "b"))
    assert await states() == ["delivered", "outstanding"]
    await ledger.close_inputs(1)
    assert await states() == ["delivered", "closed"]


@pytest.mark.rule("INPUT-END")
async def test_the_end_closes_what_is_not_delivered(ledger: SqliteLedger) -> None:
    for key in "abc":
        await ledger.add_input(new_input(1, key))
    await ledger.add_input(new_input(2, "z"))
    await ledger.answer_input(1, "b", b"{}", by="update")
    await ledger.answer_input(1, "c", b"{}", by="update")
    await ledger.deliver_input(1, "c")
    await ledger.close_inputs(1)
    assert [(one.key, one.state) for one in await ledger.inputs(1, EVERY_STATE)] == [
        ("a", "closed"), ("b", "closed"), ("c", "delivered"),
    ]  # fmt: skip
    assert not await ledger.answer_input(1, "a", b"{}", by="update")
    assert await ledger.undelivered() == []
    assert [one.key for one in await ledger.inputs(2)] == ["z"]


@pytest.mark.rule("INPUT-GONE")
async def test_a_question_is_withdrawn_by_what_began_after_it(ledger: SqliteLedger) -> None:
    asked = await ledger.add_input(new_input(1, "k", asked_ms=1_000))
    for began_ms in (999, 1_000):
        assert not await ledger.withdraw_input(1, "k", now_ms=2_000, asked_before_ms=began_ms)
    assert await ledger.withdraw_input(1, "k", now_ms=2_000, asked_before_ms=1_001)
    assert await ledger.inputs(1, EVERY_STATE) == [replace(asked, state="closed", withdrawn_ms=2_000)]
    assert not await ledger.withdraw_input(1, "k", now_ms=3_000, asked_before_ms=3_000)
    assert not await ledger.answer_input(1, "k", b"{}", by="update")


@pytest.mark.rule("INPUT-GONE")
@pytest.mark.parametrize("delivered", [False, True])
async def test_what_was_answered_is_not_withdrawn(ledger: SqliteLedger, *, delivered: bool) -> None:
    await ledger.add_input(new_input(1, "k"))
    await ledger.answer_input(1, "k", b"{}", by="update")
    if delivered:
        await ledger.deliver_input(1, "k")
    assert not await ledger.withdraw_input(1, "k", now_ms=9_000, asked_before_ms=9_000)
    assert not await ledger.ask_again(new_input(1, "k"), withdrawn_before_ms=9_000)
    assert await ledger.inputs(1) == []


@pytest.mark.rule("INPUT-GONE")
async def test_a_withdrawn_question_is_asked_anew_as_if_never_sent(ledger: SqliteLedger) -> None:
    pk = (await ledger.create_task(new_task("t"))).pk
    await ledger.add_input(new_input(pk, "k"))
    sent = AskRow(session_id="s", request_id=b"1", task_pk=pk, key="k", sent_ms=1_500, event_id="1-1")
    await ledger.ask(sent, unless_since_ms=0)
    await ledger.withdraw_input(pk, "k", now_ms=2_000, asked_before_ms=2_000)
    again = new_input(pk, "k", params=b'{"message":"!"}', asked_ms=3_000)
    assert await ledger.add_input(again) != again
    assert not await ledger.ask_again(again, withdrawn_before_ms=2_000)
    assert len(await ledger.asks_of(pk)) == 1
    assert await ledger.ask_again(again, withdrawn_before_ms=2_001)
    assert await ledger.inputs(pk) == [again]
    assert await ledger.asks_of(pk) == []
    assert not await ledger.ask_again(again, withdrawn_before_ms=9_000)


@pytest.mark.rule("INPUT-GONE", "INPUT-END")
async def test_nothing_is_asked_anew_after_the_end(ledger: SqliteLedger) -> None:
    pk = (await ledger.create_task(new_task("t"))).pk
    await ledger.add_input(new_input(pk, "k"))
    await ledger.add_input(new_input(pk, "l"))
    await ledger.withdraw_input(pk, "k", now_ms=2_000, asked_before_ms=2_000)
    await see(ledger, pk, Status.COMPLETED, result=b"1", ttl_ms=None, now_ms=2_500)
    await ledger.close_inputs(pk)
    for key in "kl":
        assert not await ledger.ask_again(new_input(pk, key), withdrawn_before_ms=9_000)
    assert await ledger.inputs(pk) == []


@pytest.mark.rule("DUR-4")
async def test_questions_go_with_the_payload(ledger: SqliteLedger, path: Path) -> None:
    pk = (await ledger.create_task(new_task("t"))).pk
    await ledger.add_input(new_input(pk, "k"))
    await ledger.add_input(new_input(pk + 1, "other"))
    assert len(await ledger.inputs(pk)) == 1
    await ledger.expire(pk, 3_000)
    assert await ledger.inputs(pk, EVERY_STATE) == []
    assert on_disk(path, "SELECT key FROM input") == [("other",)]
