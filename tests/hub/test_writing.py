"""What a client is shown of a task, in each dialect; held against independent models of the wire."""

import json
from pathlib import Path
from typing import Any

import pytest

from shim.hub import rawjson
from shim.hub.codec import CodecError, write_create, write_get, write_task
from shim.hub.dialect import Dialect, load_dialect
from shim.hub.registry import shipped_tables
from shim.hub.status import Status
from tests.hub.support import CREATE_STATUS, DIALECTS, EXPERIMENTAL, PAYLOAD, QUESTION, SEP_2663, sample
from tests.models import check_legacy

EVERY_STATUS = pytest.mark.parametrize("status", Status)
TIMES = {"createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:40:00Z"}


EXTENSION_SCHEMA = Path(__file__).parents[3] / "shared" / "schemas" / "ext-tasks.json"


def shown(raw: bytes) -> Any:
    return rawjson.decode(raw)


# -- sep-2663 ------------------------------------------------------------------------------------


@pytest.mark.rule("ML-CREATE-REPLY", "KEYS")
@EVERY_STATUS
def test_a_modern_handle_is_flat_and_working(status: Status) -> None:
    raw = write_create(SEP_2663, sample(status, meta=b'{"com.example/x":1.10}'))
    members = rawjson.members(raw)
    assert members.pop("_meta") == b'{"com.example/x":1.10}'
    assert shown(rawjson.join(members)) == {
        "resultType": "task", "taskId": "t-1", "status": "working", "statusMessage": "half way",
        **TIMES, "ttlMs": 60_000, "pollIntervalMs": 500,
    }  # fmt: skip


def test_create_result_both_nests_the_same_task_too() -> None:
    both = shown(write_create(SEP_2663, sample(Status.WORKING), nested_too=True))
    task = both.pop("task")
    assert both == {"resultType": "task", **task}
    assert both == shown(write_create(SEP_2663, sample(Status.WORKING)))


@pytest.mark.rule("HUB-3")
@EVERY_STATUS
def test_a_modern_status_brings_what_its_state_has(status: Status) -> None:
    raw = write_get(SEP_2663, sample(status))
    expected: dict[str, Any] = {
        Status.COMPLETED: {"result": {"resultType": "complete", **shown(PAYLOAD)}},
        Status.FAILED: {"error": {"code": -32000, "message": "no", "data": 1.10}},
        Status.INPUT_REQUIRED: {"inputRequests": {"k": shown(QUESTION)}},
    }.get(status, {})
    assert shown(raw) == {
        "resultType": "complete", "taskId": "t-1", "status": status.value, "statusMessage": "half way",
        **TIMES, "ttlMs": 60_000, "pollIntervalMs": 500, **expected,
    }  # fmt: skip


@EVERY_STATUS
def test_a_modern_notification_has_the_task_without_an_envelope(status: Status) -> None:
    raw = write_task(SEP_2663, sample(status))
    assert {"resultType": "complete", **shown(raw)} == shown(write_get(SEP_2663, sample(status)))


@pytest.mark.rule("HUB-5", "ML-TERMINAL")
def test_an_inlined_result_gets_its_discriminator_and_keeps_its_bytes() -> None:
    result = rawjson.members(write_get(SEP_2663, sample(Status.COMPLETED)))["result"]
    assert result == b'{"resultType":"complete",' + PAYLOAD[1:]


def test_a_discriminator_that_is_there_is_left_alone() -> None:
    result = b'{"content":[],"resultType":"complete"}'
    assert rawjson.members(write_get(SEP_2663, sample(Status.COMPLETED, result=result)))["result"] == result


@pytest.mark.rule("HUB-3")
def test_no_question_captured_is_shown_as_working() -> None:
    task = shown(write_get(SEP_2663, sample(Status.INPUT_REQUIRED, input_requests=None)))
    assert (task["status"], task["statusMessage"]) == ("working", "half way")
    assert "inputRequests" not in task


@pytest.mark.rule("HUB-3")
@pytest.mark.parametrize(("status", "field"), [(Status.COMPLETED, "result"), (Status.FAILED, "error")])
def test_an_end_without_its_payload_is_never_shown(status: Status, field: str) -> None:
    with pytest.raises(CodecError, match=f"without its {field}"):
        write_get(SEP_2663, sample(status, **{field: None}))


@pytest.mark.skipif(not EXTENSION_SCHEMA.is_file(), reason="the extension's schema lies outside the project")
@EVERY_STATUS
def test_modern_shapes_satisfy_the_extension_schema(status: Status) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    definitions = json.loads(EXTENSION_SCHEMA.read_text("utf-8"))["$defs"]
    for name, write in (
        ("CreateTaskResult", write_create),
        ("GetTaskResult", write_get),
        ("DetailedTask", write_task),
    ):
        schema = {"$defs": definitions, "$ref": f"#/$defs/{name}"}
        jsonschema.validate(shown(write(SEP_2663, sample(status))), schema)


# -- experimental --------------------------------------------------------------------------------


@pytest.mark.rule("LM-CREATE", "KEYS")
@EVERY_STATUS
def test_an_experimental_handle_is_nested_and_working(status: Status) -> None:
    raw = write_create(EXPERIMENTAL, sample(status, meta=b'{"com.example/x":1}'))
    check_legacy("CreateTaskResult", shown(raw))
    assert shown(raw) == {
        "task": {
            "taskId": "t-1", "status": "working", "statusMessage": "half way", **TIMES, "ttl": 60_000,
            "pollInterval": 500,
        },
        "_meta": {"com.example/x": 1},
    }  # fmt: skip


@pytest.mark.rule("LM-GET", "KEYS")
@EVERY_STATUS
def test_an_experimental_status_is_the_task_alone(status: Status) -> None:
    raw = write_get(EXPERIMENTAL, sample(status))
    check_legacy("GetTaskResult", shown(raw))
    check_legacy("CancelTaskResult", shown(raw))
    check_legacy("ListTasksResult", {"tasks": [shown(write_task(EXPERIMENTAL, sample(status)))]})
    assert shown(raw) == {
        "taskId": "t-1", "status": status.value, "statusMessage": "half way", **TIMES, "ttl": 60_000,
        "pollInterval": 500,
    }  # fmt: skip
    assert raw == write_task(EXPERIMENTAL, sample(status))


# -- create-status -------------------------------------------------------------------------------


@pytest.mark.rule("CS-CREATE")
@EVERY_STATUS
def test_a_four_state_handle_is_flat_and_pending(status: Status) -> None:
    assert shown(write_create(CREATE_STATUS, sample(status, status_message=None))) == {
        "taskId": "t-1", "status": "pending", "createdAt": TIMES["createdAt"],
        "ttl": 60_000, "pollInterval": 500,
    }  # fmt: skip


@pytest.mark.rule("CS-STATUS")
@pytest.mark.parametrize("message", [None, "half way"])
@pytest.mark.parametrize(
    ("status", "state", "fixed"),
    [
        (Status.WORKING, "running", None),
        (Status.INPUT_REQUIRED, "running", "input required"),
        (Status.COMPLETED, "done", None),
        (Status.FAILED, "error", None),
        (Status.CANCELLED, "error", "cancelled"),
    ],
)
def test_four_states_outwards(status: Status, state: str, fixed: str | None, message: str | None) -> None:
    task = shown(write_get(CREATE_STATUS, sample(status, status_message=message, input_requests=None)))
    expected = {
        "taskId": "t-1",
        "status": state,
        "createdAt": TIMES["createdAt"],
        "ttl": 60_000,
        "pollInterval": 500,
    }
    said = fixed or message
    assert task == {**expected, **({"statusMessage": said} if said else {})}


@pytest.mark.rule("CS-INPUT")
def test_four_states_show_questions_that_are_given() -> None:
    task = rawjson.members(write_get(CREATE_STATUS, sample(Status.INPUT_REQUIRED)))
    assert task["inputRequests"] == b'{"k":' + QUESTION + b"}"
    assert task["status"] == b'"running"'


# -- every dialect -------------------------------------------------------------------------------


@pytest.mark.rule("KEYS")
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_optional_members_are_omitted_and_ttl_is_null(dialect: Dialect) -> None:
    bare = sample(
        Status.WORKING, status_message=None, created_at=None, last_updated_at=None,
        ttl_ms=None, poll_interval_ms=None,
    )  # fmt: skip
    ttl = str(dialect.fields.ttl)
    assert shown(write_task(dialect, bare)) == {
        "taskId": "t-1",
        "status": dialect.outwards[Status.WORKING],
        ttl: None,
    }


def test_a_task_that_was_never_updated_shows_its_creation() -> None:
    task = shown(write_task(EXPERIMENTAL, sample(Status.WORKING, last_updated_at=None)))
    assert task["lastUpdatedAt"] == task["createdAt"]


def test_a_lone_surrogate_in_a_text_can_be_shown() -> None:
    task = rawjson.members(write_task(EXPERIMENTAL, sample(Status.WORKING, status_message="\ud800")))
    assert task["statusMessage"] == b'"\\ud800"'


def test_an_own_table_writes_its_own_names() -> None:
    text = shipped_tables().joinpath("create-status.toml").read_text("utf-8")
    for old, new in (
        ('"taskId"', '"jobId"'), ('first = "pending"', 'first = ""'), ('ttl = "ttl"', "ttl = false"),
        ("ttl_always = true", "ttl_always = false"), ('"createdAt"', "false"), ('"pollInterval"', "false"),
        ('"inputRequests"', '"asks"'), ('"statusMessage"', "false"),
    ):  # fmt: skip
        text = text.replace(old, new)
    own = load_dialect(text, "own.toml")
    assert shown(write_create(own, sample(Status.WORKING))) == {"jobId": "t-1", "status": "running"}
    assert shown(write_get(own, sample(Status.INPUT_REQUIRED))) == {
        "jobId": "t-1", "status": "running", "asks": {"k": shown(QUESTION)},
    }  # fmt: skip
    assert own.create_request({}, 5_000) == ("tasks/create", {})
