"""A table is total, or it is refused with the file, the line and what is missing."""

import re

import pytest

from shim.hub.dialect import DialectError, load_dialect
from shim.hub.errors import load_error_table
from shim.hub.registry import load_dialects, load_errors, shipped_tables
from shim.hub.status import Status
from shim.wire import errors as wire

SHIPPED = ("sep-2663", "experimental", "create-status")
TEXT = {name: shipped_tables().joinpath(f"{name}.toml").read_text("utf-8") for name in SHIPPED}


def without(text: str, section: str, key: str) -> str:
    """Take one line out of a section."""
    head, mark, tail = text.partition(f"[{section}]")
    return head + mark + re.sub(rf"^{key} = .*\n", "", tail, count=1, flags=re.MULTILINE)


def changed(text: str, section: str, key: str, value: str) -> str:
    """Give a key of a section another value, or add it."""
    head, mark, tail = without(text, section, key).partition(f"[{section}]")
    comment, _, rest = tail.partition("\n")
    return f"{head}{mark}{comment}\n{key} = {value}\n{rest}"


def line(text: str, start: str, section: str) -> int:
    """Find the line that starts so, at or after a section's head."""
    lines = text.splitlines()
    first = next(i for i, one in enumerate(lines) if one.startswith(f"[{section}]"))
    return next(i for i, one in enumerate(lines) if i >= first and one.startswith(start)) + 1


def refusal(text: str) -> str:
    with pytest.raises(DialectError) as caught:
        load_dialect(text, "site.toml")
    return str(caught.value)


@pytest.mark.rule("CS-TABLE")
def test_what_ships_is_total() -> None:
    dialects = load_dialects()
    assert set(dialects) == set(SHIPPED)
    for dialect in dialects.values():
        assert set(dialect.outwards) == set(Status)


KEYS = [
    (section, key)
    for section, keys in {
        "methods": "create get result list update cancel answer status_notification",
        "create": "style reply member first",
        "fields": "task_id status status_message created_at last_updated_at ttl poll_interval "
        "input_requests input_responses result error",
        "members": "tasks cursor next_cursor",
        "carries": "ttl_always input_stream related_task ack cancel_of_ended tool_support",
    }.items()
    for key in keys.split()
]


@pytest.mark.rule("CS-TABLE")
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize(("section", "key"), KEYS)
def test_a_missing_key_is_named_with_its_table(name: str, section: str, key: str) -> None:
    text = without(TEXT[name], section, key)
    assert refusal(text) == f"site.toml:{line(text, '[', section)}: {section}.{key}: is missing"


SECTIONS = ("methods", "create", "fields", "members", "carries", "outwards", "inwards")


@pytest.mark.parametrize("section", SECTIONS)
def test_a_missing_table_is_named(section: str) -> None:
    text = re.sub(rf"^\[{section}\].*?(?=^\[)", "", TEXT["experimental"], flags=re.MULTILINE | re.DOTALL)
    assert refusal(text) == f"site.toml:1: {section}: is missing"


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("name", SHIPPED)
def test_every_hub_state_needs_a_way_out(name: str, status: Status) -> None:
    text = without(TEXT[name], "outwards", status)
    fault = f"outwards: the hub state {status.value!r} has no way out"
    assert refusal(text) == f"site.toml:{line(text, '[', 'outwards')}: {fault}"


@pytest.mark.parametrize("state", ["running", "done", "error"])
def test_every_state_that_goes_out_needs_a_way_back(state: str) -> None:
    text = without(TEXT["create-status"], "inwards", state)
    status = {"running": "working", "done": "completed", "error": "failed"}[state]
    at = line(text, status, "outwards")
    assert refusal(text) == f"site.toml:{at}: outwards.{status}: {state!r} has no way back in [inwards]"


ONE_CHANGE = [
    ("outwards", "paused", '"running"', "'paused' does not fit"),
    ("inwards", "running", '"paused"', "'paused' does not fit"),
    ("inwards", "running", "1", "1 does not fit"),
    ("lenient", "submitted", "true", "True does not fit"),
    ("lenient", "running", '"working"', "stands in [inwards], too"),
    ("messages", "cancelled", '""', "'' does not fit"),
    ("outwards", "completed", '"running"', "read back as 'working'"),
    ("outwards", "working", '"done"', "read back as 'completed'"),
    ("create", "first", '"queued"', "'queued' is missing in [inwards]"),
    ("create", "first", '"done"', "or an end there"),
    ("create", "style", '"guess"', "Input should be 'augment', 'call' or 'server'"),
    ("create", "reply", '"deep"', "Input should be 'flat' or 'nested'"),
    ("methods", "cancel", "true", "expected a name, or false"),
    ("methods", "cancel", '""', "expected a name, or false"),
    ("methods", "get", "false", "Input should be a valid string"),
    ("methods", "cancel", '"tasks/status"', "'tasks/status' is methods.get already"),
    ("methods", "create", "false", "does not fit create.style = 'call'"),
    ("methods", "result", "false", "but fields.result or fields.error is false"),
    ("methods", "delete", '"tasks/delete"', "is no key of a dialect's table"),
    ("fields", "status_message", '"status"', "'status' is fields.status already"),
    ("members", "cursor", '"taskId"', "'taskId' is fields.task_id already"),
    ("members", "tasks", "false", "false, but methods.list is a method"),
    ("fields", "input_responses", "false", "false, but methods.answer is a method"),
    ("create", "member", '""', "String should have at least 1 character"),
    ("fields", "task_id", "false", "Input should be a valid string"),
    ("carries", "ack", '"yes"', "Input should be a valid boolean"),
    ("carries", "ack", "1", "Input should be a valid boolean"),
]


@pytest.mark.parametrize(("section", "key", "value", "fault"), ONE_CHANGE)
def test_a_wrong_fact_is_refused_at_its_line(section: str, key: str, value: str, fault: str) -> None:
    text = changed(TEXT["create-status"], section, key, value)
    message = refusal(text)
    at = line(text, key, section)
    assert message.startswith(f"site.toml:{at}: {section}.{key}: ")
    assert fault in message


def test_a_ttl_that_is_always_there_needs_a_name() -> None:
    text = changed(TEXT["create-status"], "fields", "ttl", "false")
    assert refusal(text) == (
        f"site.toml:{line(text, 'ttl_always', 'carries')}: carries.ttl_always: true, but fields.ttl is false"
    )


def test_inline_questions_need_a_way_to_answer() -> None:
    text = changed(TEXT["create-status"], "methods", "answer", "false")
    text = changed(text, "carries", "input_stream", "false")
    assert refusal(text).startswith(
        f"site.toml:{line(text, 'answer', 'methods')}: methods.answer: false, but"
    )


def test_a_method_for_answers_needs_their_name() -> None:
    text = changed(TEXT["create-status"], "fields", "input_responses", "false")
    assert refusal(text).startswith(
        f"site.toml:{line(text, 'input_responses', 'fields')}: fields.input_responses: false, but"
    )


def test_augment_is_a_member_of_the_call() -> None:
    text = changed(TEXT["experimental"], "methods", "create", '"tasks/create"')
    assert "methods.create: create.style = 'augment'" in refusal(text)


def test_a_server_that_decides_has_no_create_method() -> None:
    text = changed(TEXT["create-status"], "create", "style", '"server"')
    assert "methods.create: does not fit create.style = 'server'" in refusal(text)


def test_what_is_not_toml_is_refused_at_its_line() -> None:
    assert refusal('name = "x"\nera = \n').startswith("site.toml:2: not TOML: ")
    assert refusal('name = "x"\nera = "').startswith("site.toml:2: not TOML: ")


@pytest.mark.parametrize("name", ["Bad Name", "", "é"])
def test_a_name_must_be_usable_in_paths_and_logs(name: str) -> None:
    text = re.sub(r"^name = .*$", f'name = "{name}"', TEXT["experimental"], flags=re.MULTILINE)
    assert refusal(text).startswith("site.toml:2: name: ")


# -- a site's own tables -------------------------------------------------------------------------


@pytest.mark.rule("CS-TABLE")
def test_a_site_adds_a_table_with_names_of_its_own(tmp_path) -> None:
    own = (
        TEXT["create-status"]
        .replace("tasks/", "jobs/")
        .replace('"taskId"', '"jobId"')
        .replace("done", "ready")
    )
    path = tmp_path / "jobs.toml"
    path.write_text(own.replace('name = "create-status"', 'name = "jobs"'), "utf-8")
    jobs = load_dialects([path])["jobs"]
    assert jobs.methods.verb("jobs/create") == "create"
    assert jobs.fields.task_id == "jobId"
    assert jobs.inwards["ready"] is Status.COMPLETED


def test_a_name_is_taken_once(tmp_path) -> None:
    path = tmp_path / "again.toml"
    path.write_text(TEXT["experimental"], "utf-8")
    with pytest.raises(DialectError, match=r"again\.toml: name: 'experimental' is taken"):
        load_dialects([path])


def test_a_file_that_is_not_there(tmp_path) -> None:
    with pytest.raises(DialectError, match=r"none\.toml: cannot be read"):
        load_dialects([tmp_path / "none.toml"])


def test_a_file_that_is_no_text(tmp_path) -> None:
    path = tmp_path / "bytes.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(DialectError, match=r"bytes\.toml: cannot be read"):
        load_dialects([path])


# -- verbs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "verbs"),
    [
        (
            "experimental",
            {"tasks/get": "get", "tasks/result": "result", "tasks/list": "list", "tasks/cancel": "cancel"},
        ),
        (
            "create-status",
            {
                "tasks/create": "create",
                "tasks/status": "get",
                "tasks/result": "result",
                "tasks/list": "list",
                "tasks/cancel": "cancel",
                "tasks/inputResponse": "answer",
            },
        ),
        ("sep-2663", {"tasks/get": "get", "tasks/update": "answer", "tasks/cancel": "cancel"}),
    ],
)
def test_a_method_that_a_table_lacks_does_not_exist(name: str, verbs: dict[str, str]) -> None:
    methods = load_dialects()[name].methods
    assert {method: methods.verb(method) for method in methods.names()} == verbs
    assert methods.verb("tools/call") is None
    assert methods.verb("tasks/frobnicate") is None


# -- error codes ---------------------------------------------------------------------------------

ONE_ERROR = '[internal]\ncode = -32603\nmodern = 200\nlegacy = 200\nmeaning = "it failed"\n'


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize(
    ("name", "code", "eras"),
    [
        ("parse_error", -32700, {"modern", "legacy"}),
        ("invalid_request", -32600, {"modern", "legacy"}),
        ("method_not_found", -32601, {"modern", "legacy"}),
        ("invalid_params", -32602, {"modern", "legacy"}),
        ("internal", -32603, {"modern", "legacy"}),
        ("header_mismatch", -32020, {"modern"}),
        ("missing_capability", -32021, {"modern"}),
        ("unsupported_version", -32022, {"modern"}),
        ("resource_not_found", -32002, {"legacy"}),
        ("url_elicitation", -32042, {"legacy"}),
    ],
)
def test_codes(name: str, code: int, eras: set[str]) -> None:
    errors = load_errors()
    assert errors.code(name) == code
    assert errors[name].eras == eras
    assert len(errors) == len(set(errors)) == 10


def test_the_wire_has_the_codes_of_the_table() -> None:
    errors = load_errors()
    spoken = {
        name.lower(): value for name, value in vars(wire).items() if name.isupper() and isinstance(value, int)
    }
    assert spoken == {name: errors.code(name) for name in spoken}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ONE_ERROR.replace("modern = 200\n", ""), "e.toml:1: internal.modern: is missing"),
        (ONE_ERROR.replace("modern = 200", 'modern = "x"'), "e.toml:3: internal.modern: "),
        (ONE_ERROR.replace("= 200", "= false"), "e.toml:1: internal: stands in no era"),
        (
            ONE_ERROR + ONE_ERROR.replace("internal", "again"),
            "e.toml:7: again.code: -32603 is internal already",
        ),
        ("[internal\n", "e.toml:1: not TOML"),
    ],
)
def test_an_error_table_is_refused_at_its_line(text: str, message: str) -> None:
    with pytest.raises(DialectError) as caught:
        load_error_table(text, "e.toml")
    assert str(caught.value).startswith(message)
