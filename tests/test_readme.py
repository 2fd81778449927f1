"""What the README names exists, and what exists is named there."""

import re
from pathlib import Path

from shim.audit.events import EVENTS
from shim.audit.metrics import Metrics
from shim.cli.main import cli
from shim.cli.serve import serve
from shim.cli.warnings import CHECKS
from shim.config import Config
from shim.fronts.guard import routes

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def _part(title: str) -> str:
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def _rows(title: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", _part(title), re.MULTILINE))


def test_the_events_are_those_that_are_written() -> None:
    assert _rows("Log events") == set(EVENTS)


def test_the_metrics_are_those_that_are_served() -> None:
    metrics = Metrics(())
    metrics.watch(
        dropped=lambda: 0,
        under_way=lambda: 0,
        shadowed={},
        legacy_callers=lambda: 0,
        reached={},
        buffered=lambda: 0,
    )
    served = {line.split()[2] for line in metrics.text().decode().splitlines() if line.startswith("# TYPE")}
    assert _rows("Metrics") == {name for name in served if not name.endswith("_created")}


def test_every_config_section_is_named() -> None:
    named = set(re.findall(r"`\[+([a-z]+)\]+`", _part("Configuration")))
    assert named == set(Config.model_fields)


def test_every_command_and_flag_is_named() -> None:
    commands = _part("Commands")
    named = {name for name in _rows("Commands") if name.startswith("taskshim ")}
    assert {re.split(r"[ `]", name)[1] for name in named} == set(cli.commands)
    flags = {flag for option in serve.params for flag in option.opts if flag.startswith("--")}
    assert flags <= set(re.findall(r"--[a-z]+", commands))


def test_every_path_is_named() -> None:
    assert all(f"`{path}`" in _part("Endpoints") for path in routes("/mcp"))
    assert all(
        f"`{path}`" in _part("Endpoints") for path in ("/healthz", "/readyz", "/metrics", "/upstreams")
    )


def test_every_warning_of_check_is_named():
    warned = [
        row for row in _part("Commands").splitlines() if row.startswith("| `") and "taskshim" not in row
    ]
    assert warned == [f"| `{one.key}` | {one.when} |" for one in CHECKS]
