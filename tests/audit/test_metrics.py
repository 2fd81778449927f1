"""What Prometheus reads."""

from collections import Counter

import pytest

from shim.audit.metrics import Metrics
from shim.audit.sink import NullSink
from shim.audit.trace import Trace


def ended(metrics: Metrics, *, calls: int = 0, **fields) -> None:
    trace = Trace(NullSink(), upstream="main")
    for name, value in fields.items():
        setattr(trace, name, value)
    trace.upstream_calls = calls
    trace.finish()
    metrics.request(trace)


@pytest.fixture
def metrics():
    return Metrics(["tools/call", "tasks/get"])


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_requests_are_counted_by_corner_method_and_outcome(metrics):
    ended(metrics, corner="ML", method="tools/call", era="modern", calls=2)
    ended(metrics, corner="ML", method="tools/call", era="modern", code=-32602)
    assert value(metrics, "taskshim_requests_total", corner="ML", method="tools/call", outcome="ok") == 1
    assert value(metrics, "taskshim_requests_total", corner="ML", method="tools/call", outcome="error") == 1
    assert value(metrics, "taskshim_request_seconds_count", corner="ML") == 2


def test_exchanges_with_upstreams_are_counted_by_method_and_outcome(metrics):
    for method, outcome in (
        ("tools/call", "ok"),
        ("tools/call", "ok"),
        ("tools/call", "broken"),
        ("made/up", "ok"),
    ):
        metrics.exchange("main", method, outcome)
    told = {
        (method, outcome): value(
            metrics, "taskshim_upstream_requests_total", upstream="main", method=method, outcome=outcome
        )
        for method, outcome in (("tools/call", "ok"), ("tools/call", "broken"), ("other", "ok"))
    }
    assert list(told.values()) == [2, 1, 1]


def test_methods_that_clients_make_up_are_one_label(metrics):
    for number in range(50):
        ended(metrics, corner="LL", method=f"made/up{number}")
    ended(metrics, corner="LL")
    assert value(metrics, "taskshim_requests_total", corner="LL", method="other", outcome="ok") == 51
    assert b"made/up" not in metrics.text()


def test_who_was_turned_away_unknown_is_counted_apart(metrics):
    ended(metrics, era="legacy", http_status=401)
    ended(metrics, http_status=403)
    ended(metrics, era="legacy", caller="a", caller_kind="jwt", http_status=404)
    assert value(metrics, "taskshim_legacy_requests_total") == 1
    assert value(metrics, "taskshim_unidentified_requests_total", era="legacy") == 1
    assert value(metrics, "taskshim_unidentified_requests_total", era="none") == 1


@pytest.mark.parametrize(
    ("fields", "calls", "saved"),
    [
        ({"method": "tasks/get"}, 0, 1),
        ({"method": "tasks/get"}, 1, 0),
        ({"method": "tasks/get", "code": -32602}, 0, 0),
        ({"method": "tools/call"}, 0, 0),
    ],
)
def test_a_poll_that_needed_no_upstream_is_saved(metrics, fields, calls, saved):
    ended(metrics, calls=calls, **fields)
    assert value(metrics, "taskshim_polls_saved_total") == saved


def test_what_others_count_is_read_at_the_scrape(metrics):
    counts = {"dropped": 0, "under_way": 0}
    shadowed = Counter()
    metrics.watch(
        dropped=lambda: counts["dropped"], under_way=lambda: counts["under_way"], shadowed=shadowed,
        legacy_callers=lambda: counts["under_way"] + 1, reached=(reached := Counter()), buffered=lambda: 6,
    )  # fmt: skip
    counts.update(dropped=7, under_way=3)
    shadowed["new", "same"] += 2
    reached["limits.body_bytes"] += 5
    text = metrics.text().decode()
    assert "taskshim_audit_dropped_total 7.0" in text
    assert "taskshim_open_requests 3.0" in text
    assert "taskshim_legacy_callers 4.0" in text
    assert 'taskshim_limit_reached_total{limit="limits.body_bytes"} 5.0' in text
    assert 'taskshim_shadow_calls_total{outcome="same",upstream="new"} 2.0' in text


def test_legacy_requests_are_counted_and_denied_ones_by_reason(metrics):
    ended(metrics, era="legacy", caller_kind="jwt", outcome="denied", refusal="token_expired")
    ended(metrics, era="modern")
    assert value(metrics, "taskshim_legacy_requests_total") == 1
    assert value(metrics, "taskshim_denied_total", reason="token_expired") == 1
