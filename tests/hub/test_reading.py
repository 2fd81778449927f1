"""What a dialect says of a task, read: numbers, states, tolerant readings, payloads."""

import pytest

from shim.hub import rawjson
from shim.hub.codec import CodecError, Reading, TaskUnknownError, read_create, read_task
from shim.hub.dialect import Dialect
from shim.hub.status import Status
from tests.hub.support import CREATE_STATUS, DIALECTS, EXPERIMENTAL, PAYLOAD, QUESTION, SEP_2663, task_object

EVERY = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)


def read(dialect: Dialect, **changes: object) -> Reading:
    return read_task(dialect, task_object(dialect.name, **changes))


def details(reading: Reading) -> list[tuple[str, str]]:
    return [(one.rule, one.detail) for one in reading.lenient]


# -- numbers -------------------------------------------------------------------------------------

TTLS = [
    (None, None, False), (b"null", None, False), (b"60000", 60_000, False), (b"60000.9", 60_000, False),
    (b"6e4", 60_000, False), (b"0.5", 0, True), (b"0", 0, True), (b"-0", 0, True), (b"-1", -1, True),
    (b"-0.5", -1, True), (b"1e999", 2**53 - 1, False), (b"9" * 5_000, 2**53 - 1, False),
    (b"9007199254740993", 2**53 - 1, False), (b"-1e999", 1 - 2**53, True),
    (b'"60000"', None, True), (b"true", None, True), (b"[]", None, True), (b"{}", None, True),
]  # fmt: skip


@pytest.mark.rule("HUB-7")
@pytest.mark.parametrize(("raw", "ttl_ms", "audited"), TTLS, ids=lambda one: repr(one)[:12])
@EVERY
def test_ttl(dialect: Dialect, raw: bytes | None, ttl_ms: int | None, *, audited: bool) -> None:
    name = str(dialect.fields.ttl)
    reading = read(dialect, **{name: raw})
    assert reading.task.ttl_ms == ttl_ms
    assert [one.rule for one in reading.lenient] == (["HUB-7"] if audited else [])


POLLS = [
    (None, None, False), (b"null", None, False), (b"0", None, False),
    (b"-5", None, False), (b"-0.5", None, False),
    (b"500", 500, False), (b"0.1", 1, False), (b"499.2", 500, False), (b"1e999", 2**53 - 1, False),
    (b'"500"', None, True), (b"false", None, True),
]  # fmt: skip


@pytest.mark.rule("HUB-7")
@pytest.mark.parametrize(("raw", "poll_ms", "audited"), POLLS, ids=lambda one: repr(one)[:12])
@EVERY
def test_poll_interval(dialect: Dialect, raw: bytes | None, poll_ms: int | None, *, audited: bool) -> None:
    reading = read(dialect, **{str(dialect.fields.poll_interval): raw})
    assert reading.task.poll_interval_ms == poll_ms
    assert [one.rule for one in reading.lenient] == (["HUB-7"] if audited else [])


# -- states --------------------------------------------------------------------------------------


@pytest.mark.rule("CS-STATUS")
@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("pending", Status.WORKING),
        ("running", Status.WORKING),
        ("done", Status.COMPLETED),
        ("error", Status.FAILED),
    ],
)
def test_four_states_inwards(state: str, status: Status) -> None:
    assert read(CREATE_STATUS, status=state).task.status is status


@pytest.mark.rule("CS-STATUS")
def test_an_error_stays_failed_whatever_its_message() -> None:
    assert read(CREATE_STATUS, status="error", statusMessage="cancelled").task.status is Status.FAILED


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("dialect", [SEP_2663, EXPERIMENTAL], ids=lambda one: one.name)
def test_five_states_inwards(dialect: Dialect, status: Status) -> None:
    reading = read(dialect, status=status.value)
    assert reading.task.status is status
    assert reading.lenient == ()


@pytest.mark.rule("HUB-4")
@pytest.mark.parametrize(
    "raw", [b'"paused"', b'"Working"', b'""', b'"\\ud800"', b"null", b"1", b'["working"]', None]
)
@EVERY
def test_an_unknown_state_is_never_working(dialect: Dialect, raw: bytes | None) -> None:
    with pytest.raises(CodecError, match=r"^status: ") as caught:
        read(dialect, status=raw)
    assert not isinstance(caught.value, TaskUnknownError)


@pytest.mark.rule("HUB-4")
@pytest.mark.parametrize(
    ("dialect", "state"),
    [(CREATE_STATUS, "working"), (CREATE_STATUS, "completed"), (EXPERIMENTAL, "running"), (SEP_2663, "done")],
    ids=repr,
)
def test_a_state_of_another_dialect_is_unknown(dialect: Dialect, state: str) -> None:
    with pytest.raises(CodecError, match=f"'{state}' is no state of {dialect.name}"):
        read(dialect, status=state)


def test_a_long_state_is_not_repeated_at_length() -> None:
    with pytest.raises(CodecError) as caught:
        read(EXPERIMENTAL, status="x" * 10_000)
    assert len(str(caught.value)) < 100


@EVERY
def test_submitted_is_read_as_working_and_audited(dialect: Dialect) -> None:
    reading = read(dialect, status="submitted")
    assert reading.task.status is Status.WORKING
    assert details(reading) == [("section-1", "status: submitted")]


@pytest.mark.rule("ML-SESSION-LOST")
@EVERY
def test_unknown_says_that_the_task_is_not_known(dialect: Dialect) -> None:
    with pytest.raises(TaskUnknownError):
        read(dialect, status="unknown")


# -- the id and the texts ------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [None, b"null", b"1", b'""', b'{"a":1}', b'"\\udc00"'])
@EVERY
def test_a_task_needs_an_id(dialect: Dialect, raw: bytes | None) -> None:
    with pytest.raises(CodecError, match=r"^taskId: expected the id"):
        read(dialect, taskId=raw)


@EVERY
def test_an_id_is_kept_as_it_is(dialect: Dialect) -> None:
    assert read(dialect, taskId="ÄÖ \U0001f600/%2e\n").task.task_id == "ÄÖ \U0001f600/%2e\n"


@pytest.mark.parametrize(
    ("raw", "text", "audited"),
    [
        (None, None, []),
        (b"null", None, []),
        (b'""', "", []),
        (b'"\\ud83d\\ude00"', "\U0001f600", []),
        (b'"a\\ud800b"', "a�b", ["statusMessage: lone surrogate"]),
        (b"5", None, ["statusMessage: no string"]),
    ],
)
@EVERY
def test_a_message_is_text_that_can_be_stored(dialect: Dialect, raw, text, audited: list[str]) -> None:
    reading = read(dialect, statusMessage=raw)
    assert reading.task.status_message == text
    assert [one.detail for one in reading.lenient] == audited


@pytest.mark.rule("HUB-6")
@EVERY
def test_times_are_taken_as_they_are_and_never_invented(dialect: Dialect) -> None:
    assert (
        read(dialect, createdAt="2025-11-25T10:30:00.5+01:00").task.created_at
        == "2025-11-25T10:30:00.5+01:00"
    )
    without = read(dialect, createdAt=None, lastUpdatedAt=None).task
    assert (without.created_at, without.last_updated_at) == (None, None)


def test_a_member_the_table_does_not_have_is_not_read() -> None:
    assert read(CREATE_STATUS, lastUpdatedAt="2025-11-25T10:40:00Z").task.last_updated_at is None
    assert read(EXPERIMENTAL, result=PAYLOAD, inputRequests={"k": {}}).task.result is None


# -- payloads ------------------------------------------------------------------------------------


@pytest.mark.rule("HUB-5")
def test_an_inlined_result_keeps_its_bytes() -> None:
    assert read(SEP_2663, status="completed", result=PAYLOAD).task.result == PAYLOAD


@pytest.mark.rule("HUB-5")
def test_an_inlined_error_keeps_its_bytes() -> None:
    error = b'{ "code": -32000, "message": "\\ud800", "data": {"n": 1.10, "x": -0} }'
    assert read(SEP_2663, status="failed", error=error).task.error == error


@pytest.mark.rule("HUB-5")
@pytest.mark.parametrize("dialect", [SEP_2663, CREATE_STATUS], ids=lambda one: one.name)
def test_questions_keep_their_bytes(dialect: Dialect) -> None:
    question = b'{"method":"elicitation/create", "params":{"x":9007199254740993,"y":1.10}, "more":1}'
    reading = read(dialect, inputRequests=b'{"k":%b}' % question)
    assert reading.task.input_requests == {"k": question}
    assert reading.lenient == ()


@pytest.mark.parametrize("raw", [None, b"null", b"{}"])
def test_no_questions_are_none(raw: bytes | None) -> None:
    assert read(SEP_2663, inputRequests=raw).task.input_requests is None


@pytest.mark.parametrize("raw", [b"[]", b'"x"', b'{"k":1}', b'{"k":[]}'])
def test_questions_that_are_no_objects_are_refused(raw: bytes) -> None:
    with pytest.raises(CodecError, match="expected an object"):
        read(SEP_2663, inputRequests=raw)


@pytest.mark.parametrize(
    ("articles", "published"),
    [
        (
            b'{"type":"elicitation","message":"Delete \\ud800?","schema":{"type":"object","x":1.10}}',
            (
                b'{"method":"elicitation/create","params":{"mode":"form","message":"Delete \\ud800?",'
                b'"requestedSchema":{"type":"object","x":1.10}}}'
            ),
        ),
        (
            b'{"type":"elicitation","message":"sure?"}',
            (
                b'{"method":"elicitation/create","params":{"mode":"form","message":"sure?",'
                b'"requestedSchema":{"type":"object","properties":{}}}}'
            ),
        ),
    ],
)
@pytest.mark.parametrize("dialect", [SEP_2663, CREATE_STATUS], ids=lambda one: one.name)
def test_the_articles_question_is_read_as_the_published_one(
    dialect, articles: bytes, published: bytes
) -> None:
    reading = read(dialect, inputRequests=b'{"k":%b,"p":%b}' % (articles, QUESTION))
    assert reading.task.input_requests == {"k": published, "p": QUESTION}
    assert details(reading) == [("section-1", "inputRequests: {type, message, schema}")]


# -- where the task stands -----------------------------------------------------------------------


def create_reply(dialect: Dialect, place: str, **more: bytes) -> dict[str, bytes]:
    task = task_object(dialect.name)
    envelope = {"resultType": b'"task"'} if dialect.era == "modern" else {}
    return {**envelope, **(task if place == "flat" else {"task": rawjson.join(task)}), **more}


@pytest.mark.parametrize("place", ["flat", "nested"])
@EVERY
def test_a_create_reply_is_read_flat_and_nested(dialect: Dialect, place: str) -> None:
    reading = read_create(dialect, create_reply(dialect, place))
    assert reading is not None
    assert reading.task.task_id == "t-1"
    expected = [] if place == dialect.create.reply else [("section-1", f"create reply: {place} task")]
    assert details(reading) == expected


@EVERY
def test_of_a_task_in_both_places_the_dialects_own_is_read(dialect: Dialect) -> None:
    reading = read_create(dialect, {**create_reply(dialect, "flat"), **create_reply(dialect, "nested")})
    assert reading is not None
    assert reading.lenient == ()


@pytest.mark.rule("ML-CREATE-REPLY")
@pytest.mark.parametrize("place", ["flat", "nested"])
@EVERY
def test_foreign_meta_of_a_create_reply_is_kept(dialect: Dialect, place: str) -> None:
    meta = (
        b'{"io.modelcontextprotocol/related-task":{"taskId":"t-1"},"io.modelcontextprotocol/serverInfo":{},'
        b'"com.example/x":{"n":1.10},"io.modelcontextprotocol/model-immediate-response":"soon"}'
    )
    reading = read_create(dialect, create_reply(dialect, place, _meta=meta))
    assert reading is not None
    kept = b'{"com.example/x":{"n":1.10},"io.modelcontextprotocol/model-immediate-response":"soon"}'
    assert reading.task.meta == kept


@pytest.mark.parametrize("meta", [b'{"io.modelcontextprotocol/related-task":{}}', b"{}", b"null", b"5"])
def test_meta_without_foreign_keys_is_none(meta: bytes) -> None:
    reading = read_create(EXPERIMENTAL, create_reply(EXPERIMENTAL, "nested", _meta=meta))
    assert reading is not None
    assert reading.task.meta is None


ANSWERS = [
    {"content": b"[]"},
    {"content": b"[]", "task": b'{"name":"wash up"}'},
    {"content": b"[]", "task": b'"t-1"'},
    {"content": b"[]", "taskId": b'"t-1"', "status": b'"working"'},
    {"taskId": b'"t-1"'},
    {"resultType": b'"complete"', "content": b"[]"},
    {},
]


@pytest.mark.parametrize("result", ANSWERS, ids=repr)
@EVERY
def test_an_answer_at_once_is_no_handle(dialect: Dialect, result: dict[str, bytes]) -> None:
    assert read_create(dialect, result) is None


def test_the_modern_era_tells_by_result_type_alone() -> None:
    task = task_object("sep-2663")
    assert read_create(SEP_2663, task) is None
    assert read_create(SEP_2663, {"resultType": b'"complete"', **task}) is None
    assert read_create(SEP_2663, {"resultType": b'"task"', "content": b"[]", **task}) is not None
    with pytest.raises(CodecError, match="taskId"):
        read_create(SEP_2663, {"resultType": b'"task"', "content": b"[]"})


@pytest.mark.rule("HUB-4")
def test_a_handle_in_an_unknown_state_is_refused() -> None:
    with pytest.raises(CodecError, match="'odd' is no state"):
        read_create(EXPERIMENTAL, {"task": b'{"taskId":"t-1","status":"odd"}'})


@EVERY
def test_a_nested_task_in_a_status_or_a_notification_is_read(dialect: Dialect) -> None:
    reading = read_task(dialect, {"task": rawjson.join(task_object(dialect.name))})
    assert reading.task.task_id == "t-1"
    assert details(reading) == [("section-1", "nested task")]


# -- a client's request for a task ---------------------------------------------------------------

CALL = {"name": b'"slow"', "arguments": b'{"n":9007199254740993}'}


@pytest.mark.rule("LM-CREATE")
@pytest.mark.parametrize(
    ("task", "ttl_ms"),
    [
        (b"{}", None),
        (b'{"ttl":null}', None),
        (b'{"ttl":5000.7}', 5_000),
        (b'{"ttl":1e999}', 2**53 - 1),
        (b'{"ttl":0}', 0),
    ],
)
def test_a_call_with_task(task: bytes, ttl_ms: int | None) -> None:
    asked = EXPERIMENTAL.read_create_request({**CALL, "task": task})
    assert (asked.params, asked.tool, asked.ttl_ms) == (CALL, "slow", ttl_ms)


@pytest.mark.rule("LM-CREATE")
@pytest.mark.parametrize(
    ("task", "message"),
    [
        (b'{"ttl":"5000"}', "task.ttl: expected a number"),
        (b'{"ttl":true}', "task.ttl: expected a number"),
        (b'{"ttl":[]}', "task.ttl: expected a number"),
        (b"null", "task: expected an object"),
        (b"[]", "task: expected an object"),
    ],
)
def test_a_task_member_that_is_refused(task: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EXPERIMENTAL.read_create_request({**CALL, "task": task})


@pytest.mark.rule("CS-CREATE")
@pytest.mark.parametrize(
    ("params", "call", "ttl_ms"),
    [
        (CALL, CALL, None),
        ({**CALL, "ttl": b"5000"}, CALL, 5_000),
        ({"method": b'"tools/call"', "params": rawjson.join(CALL)}, CALL, None),
        ({"method": b'"tools/call"', "params": rawjson.join(CALL), "ttl": b"1.5"}, CALL, 1),
        (
            {"_meta": b'{"progressToken":1}', "method": b'"tools/call"', "params": rawjson.join(CALL)},
            {"_meta": b'{"progressToken":1}', **CALL},
            None,
        ),
    ],
)
def test_tasks_create_in_both_forms(params, call, ttl_ms: int | None) -> None:
    asked = CREATE_STATUS.read_create_request(params)
    assert (asked.params, asked.tool, asked.ttl_ms) == (call, "slow", ttl_ms)


@pytest.mark.rule("CS-CREATE")
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({**CALL, "ttl": b'"x"'}, "ttl: expected a number"),
        ({"method": b'"prompts/get"', "params": b"{}"}, "method: only tools/call"),
        ({"method": b"1", "params": b"{}"}, "method: only tools/call"),
        ({"method": b'"tools/call"'}, "params: expected an object"),
        ({"method": b'"tools/call"', "params": b"[]"}, "params: expected an object"),
    ],
)
def test_tasks_create_that_is_refused(params, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CREATE_STATUS.read_create_request(params)


def test_a_request_without_a_tool_name_has_none() -> None:
    assert CREATE_STATUS.read_create_request({}).tool is None


@pytest.mark.rule("ML-CREATE")
@pytest.mark.parametrize(
    ("dialect", "ttl_ms", "request_"),
    [
        (EXPERIMENTAL, None, ("tools/call", {**CALL, "task": b"{}"})),
        (EXPERIMENTAL, 5_000, ("tools/call", {**CALL, "task": b'{"ttl":5000}'})),
        (CREATE_STATUS, None, ("tasks/create", CALL)),
        (CREATE_STATUS, 5_000, ("tasks/create", {**CALL, "ttl": b"5000"})),
        (SEP_2663, None, ("tools/call", CALL)),
    ],
)
def test_how_a_dialect_asks_for_a_task(dialect: Dialect, ttl_ms: int | None, request_) -> None:
    assert dialect.create_request(CALL, ttl_ms) == request_
