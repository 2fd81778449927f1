"""A request's trace, and the event it ends in."""

import msgspec
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from shim.audit.activity import Activity
from shim.audit.events import EVENTS, Client, Connected, RequestEnded
from shim.audit.metrics import Metrics
from shim.audit.notices import Notices
from shim.audit.request_log import RequestLog
from shim.audit.sink import MemorySink
from shim.audit.trace import Trace
from shim.audit.traffic import Traffic
from shim.clock import SystemClock

HEADERS = CIMultiDictProxy(CIMultiDict())


def written(event) -> dict:
    return msgspec.json.decode(msgspec.json.encode(event))


def test_the_request_event_says_what_was_noted():
    sink = MemorySink()
    trace = Trace.incoming(sink, {"X-Request-Id": "abc-1", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    trace.era, trace.method, trace.tool, trace.task_id = "modern", "tools/call", "report", "t1"
    trace.towards("main", "legacy", "experimental")
    trace.caller, trace.caller_kind = "c1", "api_key"
    trace.client_name, trace.client_version = "inspector", "1.2"
    trace.rule("ML-CREATE", "DUR-1")
    trace.rule("DUR-1")
    trace.upstream_calls += 1
    trace.upstream_ms += 1.23456
    trace.bytes_in, trace.bytes_out = 0, 12
    event = trace.finish(http_status=200)
    assert sink.events == [event]
    body = written(event)
    assert body.pop("ms") >= 0
    assert body == {
        "event": "request",
        "request_id": "abc-1",
        "trace_id": "a" * 32,
        "caller": "c1",
        "caller_kind": "api_key",
        "client": {"name": "inspector", "version": "1.2"},
        "era": "modern",
        "upstream": "main",
        "upstream_era": "legacy",
        "upstream_dialect": "experimental",
        "corner": "ML",
        "outcome": "ok",
        "method": "tools/call",
        "tool": "report",
        "task_id": "t1",
        "http_status": 200,
        "upstream_ms": 1.235,
        "upstream_calls": 1,
        "bytes_in": 0,
        "bytes_out": 12,
        "rules": ["DUR-1", "ML-CREATE"],
        "legacy": False,
    }


def test_a_second_finish_writes_nothing():
    sink = MemorySink()
    trace = Trace(sink)
    assert trace.finish() is not None
    assert trace.finish("error") is None
    assert len(sink.events) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "ok"),
        ({"http_status": 202}, "ok"),
        ({"http_status": 404}, "error"),
        ({"code": -32602, "http_status": 200}, "error"),
        ({"outcome": "disconnected"}, "disconnected"),
    ],
)
def test_the_outcome_is_told_from_code_and_status(given, expected):
    assert Trace(MemorySink()).finish(**given).outcome == expected


@pytest.mark.parametrize(
    ("kind", "features", "ended", "expected"),
    [
        (None, (), {"http_status": 401}, True),
        (None, (), {"http_status": 503}, True),
        (None, (), {"outcome": "disconnected"}, True),
        (None, (), {"http_status": 204}, False),  # an OPTIONS, the metadata
        *(
            (kind, (), {"http_status": status}, True)
            for kind in ("none", "session", "token")
            for status in (400, 401, 404, 405)
        ),
        ("none", (), {"http_status": 200}, False),
        ("none", (), {"http_status": 200, "code": -32602}, False),
        ("none", (), {"http_status": 429}, False),
        ("none", (), {"http_status": 502}, False),
        ("none", (), {"outcome": "disconnected"}, False),
        ("session", ("session",), {"http_status": 404}, False),
        ("token", ("session",), {"http_status": 401}, False),
        *((kind, (), {"http_status": 403}, False) for kind in ("jwt", "introspection", "api_key", "header")),
    ],
)
def test_who_was_turned_away_before_anything_told_who_calls(kind, features, ended, expected):
    trace = Trace(MemorySink())
    trace.era, trace.caller_kind = "legacy", kind
    for name in features:
        trace.feature(name)
    assert trace.finish(**ended).unidentified is expected


def test_an_error_by_http_is_an_answer_to_a_modern_client():
    trace = Trace(MemorySink())
    trace.era, trace.caller_kind = "modern", "none"
    assert not trace.finish(http_status=400, code=-32602).unidentified


def test_a_denial_is_the_outcome_whatever_comes_after():
    sink = MemorySink()
    trace = Trace(sink)
    trace.task_id = "t1"
    trace.denied("not_owner")
    assert trace.finish(code=-32602).outcome == "denied"
    assert written(sink.named("denied")[0]) == {"event": "denied", "reason": "not_owner", "task_id": "t1"}


def test_legacy_features_make_a_request_legacy():
    trace = Trace(MemorySink())
    trace.feature("tasks/list")
    event = trace.finish()
    assert event.legacy
    assert event.legacy_features == ("tasks/list",)


def test_readings_and_losses_are_events_and_rules():
    sink = MemorySink()
    trace = Trace.background(sink, upstream="main")
    trace.lenient("HUB-7", "ttl: number with a fraction")
    trace.loss("ML-UPDATE", "sampling")
    assert [written(event) for event in sink.events] == [
        {"event": "lenient", "upstream": "main", "rule": "HUB-7", "detail": "ttl: number with a fraction"},
        {"event": "loss", "upstream": "main", "rule": "ML-UPDATE", "field": "sampling"},
    ]
    assert trace.rules == {"HUB-7", "ML-UPDATE"}


def test_other_events_carry_the_context_and_may_say_from():
    sink = MemorySink()
    trace = Trace(sink, request_id="r1")
    trace.event("task.ended", task_id="t1", **{"from": "working", "to": "completed"}, age_ms=5)
    assert written(sink.events[0]) == {
        "event": "task.ended",
        "request_id": "r1",
        "task_id": "t1",
        "from": "working",
        "to": "completed",
        "age_ms": 5,
    }


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "é", "-x", "a\r\nb", "a\n"])
def test_an_odd_request_id_is_replaced(given):
    trace = Trace.incoming(MemorySink(), {"X-Request-Id": given})
    assert trace.request_id not in {given, ""}


def test_made_request_ids_differ():
    sink = MemorySink()
    assert len({Trace.incoming(sink, {}).request_id for _ in range(100)}) == 100


@pytest.mark.parametrize("given", ["", "00-xyz", f"00-{'A' * 32}-{'b' * 16}-01"])
def test_an_odd_traceparent_is_ignored(given):
    assert Trace.incoming(MemorySink(), {"traceparent": given}).trace_id is None


def test_what_a_client_states_is_bounded():
    trace = Trace(MemorySink())
    trace.method = trace.tool = trace.task_id = trace.client_name = "x" * 10_000
    event = trace.finish()
    assert {len(event.method), len(event.tool), len(event.task_id), len(event.client.name)} == {200}


def test_every_event_of_the_log_has_its_class():
    assert set(EVENTS) == {
        *("request", "denied", "lenient", "loss", "hub.illegal_transition", "upstream.invalid"),
        *("task.created", "task.status", "task.ended", "task.purged", "task.lost"),
        *("input.asked", "input.answered", "input.declined", "input.withdrawn", "input.lost"),
        *("session.opened", "session.closed", "session.lost"),
        *("upstream.probed", "upstream.down", "upstream.up", "config.reloaded", "cutover.changed"),
        *("rerouted", "sunset"),
        *("provider.down", "provider.up"),
        *("shadow.compared", "shadow.diff"),
        *("instance.started", "instance.stopped", "instance.alive"),
        *("adopted", "task.abandoned", "task.rerun", "task.waiting_credential", "audit.dropped"),
    }


def test_an_unknown_event_is_our_own_fault():
    with pytest.raises(KeyError):
        Trace(MemorySink()).event("no.such")


def test_activity_counts_what_ended_and_shows_what_waits(monkeypatch):
    now_s = 100.0
    monkeypatch.setattr("shim.audit.trace.perf_counter", lambda: now_s)
    activity, sink, traffic = Activity(), MemorySink(), Traffic()
    log = RequestLog(sink, activity, Metrics(()), traffic, Notices(SystemClock()))
    traces = [log.begin(HEADERS) for _ in range(3)]
    for trace in traces:
        trace.era, trace.method, trace.client_name, trace.caller = "legacy", "GET", "old", "c1"
        trace.towards("main", "legacy", "experimental")
    log.end(traces[0])
    now_s = 107.5
    log.begin(HEADERS)  # too young to be a wait
    connected = [
        Connected(caller="c1", caller_kind="token", client=Client(name="old", version="1"), count=1),
        Connected(caller="c2", caller_kind="session", client=Client(name="old", version="1"), count=2),
    ]
    alive = activity.alive(connected=connected, dropped=0)
    assert written(alive) == {
        "event": "instance.alive",
        "requests": {"LL": 1},
        "sessions": 3,
        "connected": [
            {
                "caller": caller,
                "caller_kind": kind,
                "client": {"name": "old", "version": "1"},
                "count": count,
            }
            for caller, kind, count in (("c2", "session", 2), ("c1", "token", 1))
        ],
        "dropped": 0,
        "waiting": [
            {
                "caller": "c1",
                "client": {"name": "old"},
                "era": "legacy",
                "method": "GET",
                "count": 2,
                "oldest_ms": 7500,
            }
        ],
    }
    assert activity.alive(connected=[], dropped=0).requests == {}
    assert isinstance(sink.events[0], RequestEnded)
    assert traffic.of("main").requests == 1
