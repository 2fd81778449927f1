"""What went by in the last minutes."""

import pytest

from shim.audit import traffic as module
from shim.audit.sink import NullSink
from shim.audit.trace import Trace
from shim.audit.traffic import MINUTES, Traffic


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the test moves."""
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


def ended(traffic, era="legacy", caller=None, kind="none", client="mcp", version="1", **fields):
    trace = Trace(NullSink(), upstream="main")
    trace.era, trace.caller, trace.caller_kind = era, caller, kind
    trace.client_name, trace.client_version = client, version
    for name, value in fields.items():
        setattr(trace, name, value)
    traffic.ended(trace)


def test_callers_of_the_old_api_are_counted_once_and_forgotten(clock):
    traffic = Traffic()
    ended(traffic, caller="a", kind="jwt")
    clock[0] += 60
    ended(traffic, caller="a", kind="jwt", version="2")
    ended(traffic, caller="b", kind="api_key")
    ended(traffic, era="modern", caller="c", kind="jwt")
    assert traffic.legacy_callers == 2
    clock[0] += 60 * (MINUTES - 1)
    assert traffic.legacy_callers == 2
    clock[0] += 60
    assert traffic.legacy_callers == 0


@pytest.mark.usefixtures("clock")
def test_who_is_no_person_counts_by_client():
    traffic = Traffic()
    for caller in ("t1", "t2"):
        ended(traffic, caller=caller, kind="token")
        ended(traffic, caller=caller, kind="session", version="2")
    ended(traffic, client=None, version=None)
    assert traffic.legacy_callers == 3


@pytest.mark.usefixtures("clock")
def test_who_was_turned_away_unknown_is_no_caller_of_the_old_api():
    traffic = Traffic()
    ended(traffic, caller="n", outcome="denied", http_status=404)
    assert (traffic.legacy_callers, traffic.of("main").legacy, traffic.of("main").requests) == (0, 0, 1)


@pytest.mark.usefixtures("clock")
def test_so_many_callers_of_a_minute_are_told_apart(monkeypatch):
    monkeypatch.setattr(module, "_CALLERS", 3)
    traffic = Traffic()
    for number in range(10):
        ended(traffic, caller=str(number), kind="jwt")
    assert traffic.legacy_callers == 3
    assert traffic.of("main").legacy == 10
