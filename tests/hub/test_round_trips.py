"""Hub -> dialect -> hub and back; what does not survive is in the loss table, and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shim.hub import losses, rawjson
from shim.hub.codec import read_create, read_task, write_create, write_get, write_task
from shim.hub.dialect import Dialect
from shim.hub.status import Status
from shim.hub.task import Task
from tests.hub.support import DIALECTS, PAYLOAD, QUESTION, sample, task_object

EVERY = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)

SAFE = 2**53 - 1
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
times = st.datetimes().map(lambda when: when.isoformat() + "Z")
marked = st.sampled_from([b'{"resultType":"complete","n":1.10}', b'{ "n" : -0, "resultType" : "complete" }'])
payloads = st.sampled_from([PAYLOAD, b"{}", b'{ "content" : [ ] }']) | marked
errors = st.sampled_from([b'{"code":-1,"message":""}', b'{"code":-32603,"message":"\\ud800","data":-0}'])
questions = st.dictionaries(
    ids, st.sampled_from([QUESTION, b'{"method":"roots/list"}']), min_size=1, max_size=3
)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    status = draw(st.sampled_from(Status))
    created_at = draw(st.none() | times)
    return Task(
        task_id=draw(ids),
        status=status,
        status_message=draw(st.none() | texts),
        created_at=created_at,
        last_updated_at=None if created_at is None else draw(times),
        ttl_ms=draw(st.none() | st.integers(-SAFE, SAFE)),
        poll_interval_ms=draw(st.none() | st.integers(1, SAFE)),
        result=draw(payloads) if status is Status.COMPLETED else None,
        error=draw(errors) if status is Status.FAILED else None,
        input_requests=draw(questions) if status is Status.INPUT_REQUIRED else None,
        meta=draw(st.none() | st.just(b'{"com.example/x":1.10}')),
    )


def without_losses(dialect: Dialect, task: Task) -> Task:
    """Give what the loss table says will come back."""
    lost = losses.OUTWARDS[dialect.name]
    changes: dict[str, Any] = {field: None for field in lost if "." not in field}
    if f"status_message.{task.status}" in lost:
        changes["status_message"] = dialect.messages[task.status]
    if f"status.{task.status}" in lost:
        changes["status"] = Status.FAILED if task.status is Status.CANCELLED else Status.WORKING
    if task.result is not None and "result" not in lost and b"resultType" not in task.result:
        changes["result"] = rawjson.join({"resultType": b'"complete"', **rawjson.members(task.result)})
    return replace(task, **changes)


@pytest.mark.rule("HUB-5", "HUB-7")
@EVERY
@given(task=tasks())
def test_hub_to_dialect_to_hub(dialect: Dialect, task: Task) -> None:
    for write in (write_task, write_get):
        reading = read_task(dialect, rawjson.members(write(dialect, task)))
        assert reading.task == without_losses(dialect, task)
        assert all(one.detail.endswith("not above 0") for one in reading.lenient)


@EVERY
@given(task=tasks())
def test_a_handle_comes_back_as_the_task_it_was(dialect: Dialect, task: Task) -> None:
    reading = read_create(dialect, rawjson.members(write_create(dialect, task)))
    assert reading is not None
    plain = replace(task, status=Status.WORKING, result=None, error=None, input_requests=None)
    if "last_updated_at" in losses.OUTWARDS[dialect.name]:
        plain = replace(plain, last_updated_at=None)
    assert reading.task == plain


@st.composite
def objects(draw: st.DrawFn, dialect: Dialect) -> dict[str, bytes]:
    """Draw an object a peer of the dialect may send, without what the loss table names."""
    names = dialect.fields
    state = draw(st.sampled_from(sorted(set(dialect.outwards.values()))))
    status = dialect.inwards[state]
    drawn: dict[str, Any] = {
        names.task_id: draw(ids),
        names.status: state,
        names.status_message: draw(st.none() | texts),
        names.created_at: draw(times),
        names.last_updated_at: draw(times),
        names.poll_interval: draw(st.none() | st.integers(1, SAFE)),
    }
    raw = {key: rawjson.encode(value) for key, value in drawn.items() if key and value is not None}
    raw[str(names.ttl)] = draw(st.just(b"null") | st.integers(1, SAFE).map(rawjson.encode))
    if names.result and status is Status.COMPLETED:
        raw[names.result] = draw(marked)
    if names.error and status is Status.FAILED:
        raw[names.error] = draw(errors)
    if names.input_requests and status is Status.INPUT_REQUIRED:
        raw[names.input_requests] = rawjson.join(draw(questions))
    return raw


@pytest.mark.rule("HUB-5")
@EVERY
@given(data=st.data())
def test_dialect_to_hub_to_dialect(dialect: Dialect, data: st.DataObject) -> None:
    shown = data.draw(objects(dialect))
    reading = read_task(dialect, shown)
    assert reading.lenient == ()
    assert rawjson.members(write_task(dialect, reading.task)) == shown


# -- the loss table, in both directions ----------------------------------------------------------

FIELDS = {
    "created_at": sample(Status.WORKING),
    "last_updated_at": sample(Status.WORKING),
    "ttl_ms": sample(Status.WORKING),
    "poll_interval_ms": sample(Status.WORKING),
    "result": sample(Status.COMPLETED, result=b'{"resultType":"complete"}'),
    "error": sample(Status.FAILED),
    "input_requests": sample(Status.INPUT_REQUIRED),
    "meta": sample(Status.WORKING, meta=b'{"com.example/x":1}'),
}


@EVERY
def test_outwards_losses_are_exactly_those_written_down(dialect: Dialect) -> None:
    lost = set()
    for field, task in FIELDS.items():
        back = read_task(dialect, rawjson.members(write_get(dialect, task))).task
        if getattr(back, field) != getattr(task, field):
            lost.add(field)
    for status in Status:
        task = sample(status)
        back = read_task(dialect, rawjson.members(write_get(dialect, task))).task
        if back.status is not status:
            lost.add(f"status.{status}")
        if back.status_message != task.status_message:
            lost.add(f"status_message.{status}")
    assert lost == set(losses.OUTWARDS[dialect.name])


INWARDS = {
    "a member the table does not name": {"x-more": b"1"},
    "a ttl that is missing": {"ttl": None},
    "a ttl with a fraction": {"ttl": b"1.5"},
    "a ttl not above 0": {"ttl": b"0"},
    "a ttl that is null": {"ttl": b"null"},
    "a poll interval with a fraction": {"poll_interval": b"1.5"},
    "a poll interval not above 0": {"poll_interval": b"0"},
    "a poll interval": {"poll_interval": b"5"},
    "the state submitted": {"status": b'"submitted"'},
    "the state pending": {"status": b'"pending"'},
    "a message that is null": {"status_message": b"null"},
    "a message": {"status_message": b'"half way"'},
    "nothing odd": {},
}


@EVERY
def test_inwards_losses_are_exactly_those_written_down(dialect: Dialect) -> None:
    lost = set()
    for name, changes in INWARDS.items():
        if name == "the state pending" and "pending" not in dialect.inwards:
            continue
        own = {str(getattr(dialect.fields, key, key)): value for key, value in changes.items()}
        shown = task_object(dialect.name, **own)
        if not dialect.fields.last_updated_at:
            shown.pop("lastUpdatedAt")
        if rawjson.members(write_task(dialect, read_task(dialect, shown).task)) != shown:
            lost.add(name)
    assert lost == set(losses.INWARDS[dialect.name])


def test_every_dialect_has_its_losses_written_down() -> None:
    assert set(losses.OUTWARDS) == set(losses.INWARDS) == set(DIALECTS)
