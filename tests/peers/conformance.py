"""The official conformance suite against a URL, its checks as records."""

import asyncio
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.peers.venvs import node_bin

LEGACY_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
EXTENSION = "extension"
"""What the suite says in place of a version of scenarios that belong to an extension."""
TASK_SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
"""The scenarios that must pass through the shim in front of the legacy server."""
INPUT_SCENARIOS = (
    "input-required-result-basic-elicitation",
    "input-required-result-basic-sampling",
    "input-required-result-basic-list-roots",
    "input-required-result-request-state",
    "input-required-result-multiple-input-requests",
    "input-required-result-multi-round",
    "input-required-result-missing-input-response",
    "input-required-result-non-tool-request",
    "input-required-result-result-type",
    "input-required-result-unsupported-methods",
    "input-required-result-tampered-state",
    "input-required-result-capability-check",
    "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
)
"""Those that ask in the middle of a call."""


@dataclass(frozen=True)
class Check:
    """One check of a scenario: SUCCESS, FAILURE, WARNING, INFO or SKIPPED."""

    scenario: str
    id: str
    status: str
    description: str
    message: str | None

    def __str__(self) -> str:
        return f"{self.scenario}/{self.id}: {self.status} {self.message or self.description}"


async def run_scenario(url: str, scenario: str, spec_version: str, *, timeout_s: int = 120) -> list[Check]:
    """Run one server scenario and give its checks. Raises AssertionError when it gave none."""
    with tempfile.TemporaryDirectory() as out:
        limit = str(timeout_s * 1000)
        said = await _conformance(
            *("server", "--url", url, "--scenario", scenario, "--spec-version", spec_version),
            *("--timeout", limit, "--force", "-o", out),  # extension scenarios have no version of their own
        )
        found = _read(Path(out), scenario)
    assert found, f"{scenario} left no checks: {said[-2000:]}"
    return found


def failures(checks: list[Check]) -> list[str]:
    """The failed checks, as text."""
    return [str(check) for check in checks if check.status == "FAILURE"]


def passed(checks: list[Check]) -> list[str]:
    """The ids of the checks that succeeded."""
    return [check.id for check in checks if check.status == "SUCCESS"]


async def server_scenarios(spec_version: str) -> list[str]:
    """The names of the server scenarios that a version has."""
    said = await _conformance("list", "--server")
    rows = re.findall(r"^ *- (\S+) \[([^\]]*)\]", said.split("Client scenarios")[0], re.MULTILINE)
    return [name for name, versions in rows if spec_version in versions.split(",")]


def _read(directory: Path, scenario: str) -> list[Check]:
    return [
        Check(scenario, c["id"], c["status"], c.get("description", ""), c.get("errorMessage"))
        for path in directory.rglob("checks.json")
        for c in json.loads(path.read_text())
    ]


async def _conformance(*args: str) -> str:
    bin_dir = node_bin()
    process = await asyncio.create_subprocess_exec(
        str(bin_dir / "node"),
        str((bin_dir / "conformance").resolve()),
        *args,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PATH": f"{bin_dir}{os.pathsep}{os.environ.get('PATH', '')}", "NO_COLOR": "1"},
    )
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out.decode(errors="replace")
