"""SHADOW: times and ids that are new at every call are no differences; what the operator ignores is none."""

from typing import Any

import pytest

from shim.hub.toml import TableError
from shim.shadow.answers import as_legacy, as_modern, differing
from shim.shadow.compare import differences, shown
from shim.shadow.noise import _forms_of, load_noise, prepared
from shim.wire.jsonrpc import Response

pytestmark = pytest.mark.rule("SHADOW")

UUIDS = ("0d3b7a5e-0a0b-4c1d-8e2f-000000000001", "0d3b7a5e-0a0b-4c1d-8e2f-000000000002")


def found(one: Any, other: Any, *ignored: str) -> list[tuple[str, str]]:
    told = differences(prepared(one, ignored), prepared(other, ignored), limit=100)
    return [(shown(path), kind) for path, kind in told]


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("createdAt", "2026-01-01T10:00:00Z", "2026-01-01T10:00:01.5+02:00"),
        ("created_at", "2026-01-01 10:00:00", "2026-01-02"),
        ("timestamp", 1_780_000_000, 1_780_000_001.25),
        ("generated-at", 1_780_000_000_000, 1_780_000_000_001),
        ("elapsedMs", 12, 3.5),
        ("requestId", *UUIDS),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331b7ad6b7169203331"),
        ("jobId", "job_0af7651916cd43dd", "job_b7ad6b7169203331"),
        ("nextCursor", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01BX5ZZKBKACTAV9WEVGEMMVRZ"),
    ],
)
def test_known_noise_is_no_difference(name: str, one: Any, other: Any) -> None:
    assert found({"a": [{name: one}]}, {"a": [{name: other}]}) == []
    assert found({"text": f'{{"{name}": 1}}'}, {"text": f'{{"{name}": 1}}'}) == []


@pytest.mark.parametrize(
    ("name", "one", "other", "kind"),
    [
        ("createdAt", "2026-01-01T10:00:00Z", "yesterday", "value"),
        ("createdAt", "2026-01-01T10:00:00Z", 1_780_000_000, "type"),
        ("createdAt", "2026-01-01T10:00:00Z", None, "type"),
        ("timestamp", 1_780_000_000, 5, "value"),
        ("timestamp", 1_780_000_000, "1780000000", "type"),
        ("timestamp", 1_780_000_000, float("inf"), "value"),
        ("requestId", 1, 2, "value"),
        ("requestId", UUIDS[0], "none", "value"),
        ("elapsed", 1, True, "type"),
        # what may as well be data is compared
        ("dueDate", "2026-01-01", "2026-01-02", "value"),
        ("departureTime", "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "value"),
        ("id", *UUIDS, "value"),
        ("price", 1_780_000_000, 1_780_000_001, "value"),
    ],
)
def test_what_is_not_noise_by_name_and_form_differs(name: str, one: Any, other: Any, kind: str) -> None:
    assert found({"a": [{name: one}]}, {"a": [{name: other}]}) == [(f"a[].{name}", kind)]


def test_a_name_that_no_server_gives_is_not_kept() -> None:
    kept = _forms_of.cache_info().currsize
    assert found({"x" * 300: 1}, {"x" * 300: 2}) == [("*", "value")]
    assert _forms_of.cache_info().currsize == kept


def test_noise_in_its_items_does_not_hide_that_a_list_has_another_order() -> None:
    def item(number: int, uuid: str) -> dict[str, Any]:
        return {"n": number, "requestId": uuid}

    one, other = [item(1, UUIDS[0]), item(2, UUIDS[1])], [item(2, UUIDS[0]), item(1, UUIDS[1])]
    assert found({"list": one}, {"list": other}) == [("list", "order")]


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        ((), {"a.b[].c", "a.d", "e", "by.*.n"}),
        (("a",), {"e", "by.*.n"}),
        (("a.b[].c",), {"a.d", "e", "by.*.n"}),
        (("a.b[]",), {"a.d", "e", "by.*.n"}),
        (("a.*", "e"), {"by.*.n"}),
        (("by.*.n",), {"a.b[].c", "a.d", "e"}),
        (("c", "b"), {"a.b[].c", "a.d", "e", "by.*.n"}),
    ],
)
def test_ignored_places_are_left_out_with_all_below(ignored: tuple[str, ...], left: set[str]) -> None:
    one = {"a": {"b": [{"c": 1}], "d": 1}, "e": 1, "by": {"a b": {"n": 1}}}
    other = {"a": {"b": [{"c": 2}], "d": 2}, "e": 2, "by": {"a b": {"n": 2}}}
    assert {path for path, _ in found(one, other, *ignored)} == left


def test_a_table_that_cannot_be_used_is_refused_with_its_place() -> None:
    with pytest.raises(TableError, match=r"noise\.toml:2.*'clock' is no form"):
        load_noise('[times]\nforms = ["clock"]\nnames = ["at"]', "noise.toml")
    with pytest.raises(TableError, match=r"noise\.toml:1"):
        load_noise("[times]\n", "noise.toml")


def answer(body: bytes, *, error: bool = False) -> Response:
    return Response(b"1", None, body) if error else Response(b"1", body, None)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (answer(b'{"content":[]}'), answer(b'{"resultType":"complete","isError":false,"content":[]}'), []),
        (
            answer(b'{"content":[],"_meta":{"a":1}}'),
            answer(b'{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}},"ttlMs":1}'),
            [],
        ),
        (answer(b'{"content":[],"isError":true}'), answer(b'{"content":[]}'), [("isError", "value")]),
        (answer(b'{"content":[]}'), answer(b'{"code":-32602}', error=True), [("error", "extra")]),
        (answer(b'{"code":-32602}', error=True), answer(b'{"content":[]}'), [("error", "missing")]),
        (
            answer(b'{"code":-32602,"message":"no"}', error=True),
            answer(b'{"code":-32603,"message":"no"}', error=True),
            [("error.code", "value")],
        ),
        (
            answer(b'{"code":-32602,"message":"no"}', error=True),
            answer(b'{"code":-32602,"message":"never"}', error=True),
            [],
        ),
    ],
)
def test_answers_of_both_eras_are_held_against_each_other(
    one: Response, other: Response, told: list[tuple[str, str]]
) -> None:
    for fit in (as_legacy, as_modern):
        assert [(shown(path), kind) for path, kind in differing(one, other, fit)] == told
