import asyncio

import pytest
from msgspec.structs import replace

from shim.hub.status import Status
from shim.ledger.records import AskRow
from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import new_input, new_session, new_task

SENT = AskRow(session_id="s", request_id=b'"ts-1-1"', task_pk=1, key="k", sent_ms=5, event_id="1-1")


async def test_a_question_keeps_the_id_it_was_first_sent_under(ledger: SqliteLedger) -> None:
    await ledger.add_input(new_input(1, "k"))
    assert await ledger.ask(SENT, unless_since_ms=0) == SENT
    again = replace(SENT, request_id=b'"ts-1-2"', sent_ms=9, event_id="1-7")
    assert await ledger.ask(again, unless_since_ms=4) is None
    kept = replace(SENT, sent_ms=9, event_id="1-7")
    assert await ledger.ask(again, unless_since_ms=5) == kept
    assert await ledger.asks_of(1) == [kept]


async def test_a_question_is_sent_over_one_session_at_a_time(ledger: SqliteLedger) -> None:
    other = replace(SENT, session_id="t", request_id=b'"ts-1-3"')
    second = replace(SENT, session_id="t", request_id=b'"ts-1-4"', key="l")
    sent = await asyncio.gather(*(ledger.ask(one, unless_since_ms=4) for one in (SENT, other, second)))
    assert sent == [SENT, None, second]
    await ledger.ask_is_due(SENT)
    assert await ledger.ask(other, unless_since_ms=4) is not None


async def test_what_a_session_was_asked_that_has_ended_may_be_asked_over_another(
    ledger: SqliteLedger,
) -> None:
    await ledger.add_session(new_session("s"))
    await ledger.close_session("s")
    await ledger.ask(SENT, unless_since_ms=0)  # its stream was about to end as well
    assert await ledger.asks_of(1) == []
    other = replace(SENT, session_id="t", request_id=b'"ts-1-3"')
    assert await ledger.ask(other, unless_since_ms=4) == other
    assert await ledger.asks_of(1) == [other]


async def test_an_answer_finds_its_question_by_session_and_id(ledger: SqliteLedger) -> None:
    await ledger.ask(SENT, unless_since_ms=0)
    assert await ledger.asked_under("s", SENT.request_id) == SENT
    assert await ledger.asked_under("t", SENT.request_id) is None
    assert await ledger.asked_under("s", b'"ts-1-2"') is None


async def test_only_what_is_outstanding_is_sent_again(ledger: SqliteLedger) -> None:
    await ledger.add_input(new_input(1, "k"))
    await ledger.ask(SENT, unless_since_ms=0)
    assert await ledger.asks("s") == [SENT]
    await ledger.answer_input(1, "k", b"{}", by="session")
    assert await ledger.asks("s") == []


@pytest.mark.rule("INPUT-GONE")
async def test_what_need_not_be_answered_any_more_is_known_until_its_client_knows(
    ledger: SqliteLedger,
) -> None:
    for key, rid in (("k", b"1"), ("l", b"2")):
        await ledger.add_input(new_input(1, key))
        await ledger.ask(replace(SENT, key=key, request_id=rid), unless_since_ms=0)
    await ledger.withdraw_input(1, "k", now_ms=9_000, asked_before_ms=9_000)
    await ledger.answer_input(1, "l", b"{}", by="update")
    sent = await ledger.asks("s")
    assert [one.key for one in sent] == ["k", "l"]
    await ledger.unask(sent[0])
    assert [one.key for one in await ledger.asks("s")] == ["l"]
    assert await ledger.asked_under("s", b"1") is None


async def test_what_the_server_would_not_have_is_asked_anew(ledger: SqliteLedger) -> None:
    await ledger.add_input(new_input(1, "k"))
    await ledger.ask(SENT, unless_since_ms=0)
    await ledger.answer_input(1, "k", b"{}", by="session")
    await ledger.release_input(1, "k")
    assert await ledger.asks_of(1) == []
    anew = replace(SENT, request_id=b'"ts-1-2"')
    assert await ledger.ask(anew, unless_since_ms=4) == anew


async def test_a_local_task_becomes_the_servers(ledger: SqliteLedger) -> None:
    row = await ledger.create_task(replace(new_task("a"), local=True))
    kept = await ledger.create_task(replace(new_task("b"), local=True))
    assert [one.task_id for one in await ledger.open_local_tasks(limit=9)] == ["a", "b"]
    await ledger.map_task(row.pk, "theirs", "s", driven=True)
    mapped = await ledger.own_task(row.pk)
    assert (mapped.upstream_task_id, mapped.session_id, mapped.driven, mapped.local) == (
        "theirs",
        "s",
        True,
        False,
    )
    await ledger.observe(
        kept.pk, status=Status.FAILED, status_message=None, last_updated_at=None, ttl_ms=None,
        poll_interval_ms=None, error=b"{}", now_ms=3,
    )  # fmt: skip
    assert await ledger.open_local_tasks(limit=9) == []
