"""The errors a client meets: code, HTTP status, one line that says what is wrong."""

import json

import pytest

from shim.hub.registry import load_errors
from shim.wire import errors
from shim.wire.era import Era
from shim.wire.errors import ClientFault, OwnFault, ShimError, UpstreamFault
from shim.wire.statuses import status_of, status_of_fault

Fault = tuple[ShimError, type[ShimError], int, int, int]
TABLE: list[Fault] = [
    # the error, its family, its code, the HTTP status in the modern era and in the legacy one
    (errors.parse_error("not JSON"), ClientFault, -32700, 400, 400),
    (errors.invalid_request("id: expected"), ClientFault, -32600, 400, 400),
    (errors.method_not_found("tasks/list"), ClientFault, -32601, 404, 200),
    (errors.invalid_params("params.x: required"), ClientFault, -32602, 400, 200),
    (errors.header_mismatch("Mcp-Name is missing"), ClientFault, -32020, 400, 200),
    (errors.missing_capability(), ClientFault, -32021, 400, 200),
    (errors.unsupported_version("x", ("y",)), ClientFault, -32022, 400, 200),
    (errors.unknown_task(), ClientFault, -32602, 400, 200),
    (errors.task_expired(), ClientFault, -32602, 400, 200),
    (errors.cancel_of_ended("completed"), ClientFault, -32602, 400, 200),
    (errors.unknown_session(), ClientFault, -32600, 404, 404),
    (errors.too_large(5), ClientFault, -32600, 413, 413),
    (errors.unsupported_media("text/plain"), ClientFault, -32600, 415, 415),
    (errors.forbidden_origin("Origin"), ClientFault, -32600, 403, 403),
    (errors.unauthorized("a key is required", (), reason="credential"), ClientFault, -32600, 401, 401),
    (errors.too_many("too many sessions", limit="a.b", retry_after_s=3), ClientFault, -32603, 429, 429),
    (errors.all_in_use("too many sessions", limit="a.b", retry_after_s=3), ClientFault, -32603, 503, 503),
    (errors.no_such_endpoint("/x"), ClientFault, -32601, 404, 404),
    (errors.not_allowed("POST"), ClientFault, -32601, 405, 405),
    (errors.outcome_unknown(), OwnFault, -32603, 200, 200),
    (errors.lost_task(), UpstreamFault, -32603, 200, 200),
    (errors.internal(), OwnFault, -32603, 500, 500),
]


@pytest.mark.rule("VALIDATE", "ERRORS")
@pytest.mark.parametrize(
    ("error", "family", "code", "modern", "legacy"), TABLE, ids=lambda value: str(value)[:40]
)
def test_how_an_error_is_answered(
    error: ShimError, family: type, code: int, modern: int, legacy: int
) -> None:
    assert type(error) is family
    assert error.code == code
    assert (status_of_fault(error, Era.MODERN), status_of_fault(error, Era.LEGACY)) == (modern, legacy)
    said = json.loads(error.error_object())
    assert said["code"] == code
    assert said["message"] == str(error)
    assert "\n" not in said["message"]
    assert ("data" in said) == (error.data is not None)


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize("era", Era)
def test_every_code_has_the_status_of_the_table(era: Era) -> None:
    for one in load_errors().values():
        assert status_of(one.code, era) == (getattr(one, era) or 200)
    assert status_of(-32000, era) == status_of(7, era) == 200


@pytest.mark.rule("ML-UNDECLARED")
def test_the_missing_extension_is_named() -> None:
    assert json.loads(errors.missing_capability().error_object())["data"] == {
        "requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    }


@pytest.mark.rule("VALIDATE")
def test_the_served_versions_are_named() -> None:
    error = errors.unsupported_version("2030-01-01", ("2026-07-28",))
    assert json.loads(error.error_object())["data"] == {
        "requested": "2030-01-01",
        "supported": ["2026-07-28"],
    }


@pytest.mark.rule("OWN-CHECK")
def test_an_unknown_task_has_one_answer() -> None:
    assert errors.unknown_task().error_object() == (
        b'{"code":-32602,"message":"Failed to retrieve task: Task not found"}'
    )


@pytest.mark.parametrize(
    ("error", "header"),
    [
        (
            errors.unauthorized("no", ("Bearer realm=x",), reason="credential"),
            ("WWW-Authenticate", "Bearer realm=x"),
        ),
        (errors.too_many("no", limit="a.b", retry_after_s=3), ("Retry-After", "3")),
        (errors.not_allowed("POST, GET"), ("Allow", "POST, GET")),
    ],
)
def test_headers_that_belong_to_an_error(error: ShimError, header: tuple[str, str]) -> None:
    assert error.headers == (header,)
