"""Every figure of every table equals the truth, however the logs come."""

import io
import random

import pytest

from shim.auditing.logs import Filter, reading
from shim.auditing.period import Period
from shim.auditing.tables import TABLES, ask
from tests.auditing import truth
from tests.auditing.world import START, at, busy, write

NOTHING = io.BytesIO()
TORN = b'{"v":1,"seq":999999,"ts":"2026-11-02T'


@pytest.fixture(scope="module")
def events():
    return [event for run in busy(7, 1500) for event in run.events]


@pytest.fixture(scope="module")
def logs(events, tmp_path_factory):
    """The same events in overlapping files, out of order, packed, torn, with things of a later version."""
    folder = tmp_path_factory.mktemp("logs")
    mixed = [*events, *({**event, "added_later": {"x": [1]}} for event in events[100:300])]
    random.Random(1).shuffle(mixed)  # noqa: S311 - a reproducible order
    names = [
        write(folder / "audit-1.jsonl", mixed[:900], TORN),
        write(folder / "audit-2.jsonl.gz", mixed[800:]),
        str(folder / "*.jsonl"),
    ]
    later = [{**events[0], "seq": 500_000, "event": "not.yet.known", "era": 7, "client": "odd"}]
    write(folder / "audit-3.jsonl", [*later, *events[:50]], b"\n\nnot json\n")
    with reading(names, NOTHING, memory="256MB") as found:
        yield found


def tidy(rows):
    return sorted(rows, key=lambda row: str(sorted(row.items(), key=str)))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "wanted",
    [
        Filter(),
        Filter(caller="a" * 8),
        Filter(caller="nightly"),
        Filter(client="mcp"),
        Filter(client="mcp 1.30.0", era="legacy"),
        Filter(tool='t\'ool; "x" é'),
        Filter(upstream="next", corner="MM"),
    ],
)
def test_every_figure_is_the_truth(logs, events, name, wanted):
    def fits(event):
        client = event.get("client", {})
        return (
            wanted.caller in {None, event.get("caller_label")}
            or event.get("caller", "").startswith(wanted.caller)
        ) and all(
            chosen is None or chosen in values
            for chosen, values in (
                (wanted.client, {client.get("name"), truth.software(event)}),
                (wanted.tool, {event.get("tool")}),
                (wanted.upstream, {event.get("upstream")}),
                (wanted.era, {event.get("era")}),
                (wanted.corner, {event.get("corner")}),
            )
        )

    logs.look(logs.span, wanted)
    found = ask(logs, name)
    if name == "callers":
        found = [{column: value for column, value in row.items() if column != "kind"} for row in found]
    expected = getattr(truth, name)([event for event in events if fits(event)])
    assert tidy(found) == tidy(expected)
    if wanted == Filter():
        assert expected


def test_only_the_period_counts(logs, events):
    times = sorted(map(at, events))
    period = Period(times[300], times[900])
    logs.look(period)
    inside = [event for event in events if period.since <= at(event) < period.until]
    assert tidy(ask(logs, "methods")) == tidy(truth.methods(inside))
    assert len(inside) < len(events)


def test_what_was_read_is_told(logs):
    assert logs.files == 3
    assert logs.span.since == START
    assert logs.duplicates == 200 + 100 + 50
    assert logs.row("SELECT count(*) AS n FROM unreadable") == {"n": 2}
