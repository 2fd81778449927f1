"""The dashboard asks for metrics and labels that the shim serves, and Grafana's own types read it."""

import json
import re
from pathlib import Path
from typing import get_args

import promql_parser
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families

from shim.audit.events import Outcome
from shim.audit.metrics import Metrics
from shim.audit.sink import NullSink
from shim.audit.trace import Trace
from shim.hub.status import Status

TEXT = (Path(__file__).parents[2] / "deploy" / "grafana" / "taskshim.json").read_text("utf-8")
DASHBOARD = json.loads(TEXT)
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
OF_THE_SCRAPE = {"instance", "job"}
"""Labels that Prometheus itself puts on."""
VALUES = {
    ("taskshim_requests_total", "outcome"): set(get_args(Outcome)),
    ("taskshim_upstream_requests_total", "outcome"): {"ok"},
    ("taskshim_upstream_requests_total", "method"): {"tasks/get", "tasks/status"},
    ("taskshim_requests_total", "corner"): {"LL", "LM", "ML", "MM"},
    ("taskshim_tasks", "status"): {one.value for one in Status},
    ("taskshim_denied_total", "reason"): {"limit"},
}
"""What a label may be, where the dashboard asks for certain values."""


def served() -> dict[str, set[str]]:
    """Give the samples of a shim that has seen one of everything, with their labels."""
    metrics = Metrics(["tools/call"])
    metrics.watch(
        dropped=lambda: 1, under_way=lambda: 1, shadowed={("main", "same"): 1}, legacy_callers=lambda: 1,
        reached={"limits.body_bytes": 1}, buffered=lambda: 1,
    )  # fmt: skip
    trace = Trace(NullSink(), upstream="main")
    trace.corner, trace.method = "LL", "tools/call"
    trace.denied("limit")
    trace.finish()
    metrics.request(trace)
    metrics.exchange("main", "tools/call", "ok")
    metrics.provider("jwks", "ok")
    metrics.tasks.labels("main", "working").set(1)
    metrics.sessions.labels("main").set(1)
    metrics.commit_batch.observe(1)
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


SERVED = served()


def expression(text: str) -> promql_parser.Expr:
    return promql_parser.parse(re.sub(r"\$__(rate_interval|range)", "5m", text))


EXPRESSIONS = {
    f"{panel['title']} {target['refId']}": (target, expression(target["expr"]))
    for panel in PANELS
    for target in panel["targets"]
}


def selectors(of: promql_parser.Expr) -> list[promql_parser.VectorSelector]:
    found = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)
        elif isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(of, visit)
    return found


def groupings(of: promql_parser.Expr) -> list[tuple[set[str], promql_parser.Expr]]:
    """Give the labels of each `by`, with what is grouped."""
    found = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            found.append((set(node.modifier.labels), node.expr))

    promql_parser.walk(of, visit)
    return found


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_each_metric_is_served_with_the_labels_that_are_asked_for(name):
    target, parsed = EXPRESSIONS[name]
    asked = selectors(parsed)
    assert asked
    for one in asked:
        assert one.name in SERVED
        labels = {matcher.name for matcher in one.matchers.matchers}
        assert labels <= SERVED[one.name] | OF_THE_SCRAPE
        assert "instance" in labels  # else the choice at the top of the page does nothing
    for labels, inner in groupings(parsed):
        assert all(labels <= SERVED[one.name] | OF_THE_SCRAPE for one in selectors(inner))
    shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    grouped = [labels for labels, _ in groupings(parsed)]
    assert shown <= (set.union(*grouped) if grouped else OF_THE_SCRAPE)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_each_value_that_is_asked_for_can_be(name):
    for one in selectors(EXPRESSIONS[name][1]):
        for matcher in one.matchers.matchers:
            if matcher.name in OF_THE_SCRAPE:
                continue
            there = VALUES[one.name, matcher.name]
            for part in matcher.value.split("|"):
                assert any(re.fullmatch(part, value) for value in there), (one.name, matcher.name, part)


def test_every_metric_is_shown():
    asked = {one.name for _, parsed in EXPRESSIONS.values() for one in selectors(parsed)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in SERVED}
    assert families == {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}


def lost(given, read, at=""):
    """Give what did not come back from Grafana's types."""
    if isinstance(given, dict) and isinstance(read, dict):
        for key, value in given.items():
            yield from lost(value, read.get(key, "lost"), f"{at}.{key}")
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for number, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from lost(one, other, f"{at}[{number}]")
    elif given != read:
        yield at, given, read


def test_grafanas_own_types_know_every_field():
    register_default_plugins()
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))
    assert list(lost(DASHBOARD, read)) == []


def test_panels_have_a_place_and_an_id_of_their_own():
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert {x for x, _ in cells} == set(range(24))
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    titles = [panel["title"] for panel in PANELS]
    assert len(set(titles)) == len(titles)


def test_it_is_written_as_grafana_writes_it():
    assert json.dumps(DASHBOARD, indent=2) + "\n" == TEXT
    assert "id" not in DASHBOARD  # it is the server's to give
    used = set(re.findall(r"\$\{?(\w+)\}?", TEXT)) - {"__rate_interval", "__range"}
    assert used == {one["name"] for one in DASHBOARD["templating"]["list"]}
