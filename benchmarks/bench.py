"""A run in progress: its directory, its lengths, its report, and how a load is put on a service."""

import json
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.processes import ROOT, Service, module
from benchmarks.report import Report, Row, Target
from benchmarks.shims import KEY
from benchmarks.stats import Figures

CLIENTS = 32
"""Connections where the rate is measured; latency is measured with one."""


@dataclass
class Bench:
    """What all cells share."""

    directory: Path
    rounds: int
    seconds: float
    sse: bool
    peer_python: Path | None
    list_rows: int
    report: Report = field(default_factory=Report)

    def load(self, workload: str, service: Service, *, connections: int, **flags: Any) -> Figures:
        """Put a load on a service and give what it saw; `cpu_s` is of the service, by its name.

        Flags are those of benchmarks.load, True for one without a value.
        """
        options = {"seconds": self.seconds, "key": KEY, "watch": service.pid, **flags}
        words = [
            f"--{name.replace('_', '-')}" if value is True else f"--{name.replace('_', '-')}={value}"
            for name, value in options.items()
        ]
        command = module(
            "benchmarks.load", workload, "--url", service.url, "--connections", str(connections), *words
        )
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"load {workload} on {service.name} failed:\n{done.stderr[-2000:]}")
        figures = msgspec.json.decode(done.stdout, type=Figures)
        figures.cpu_s = {service.name: figures.cpu_s.pop(str(service.pid))}
        if figures.first_error:
            print(f"  {workload} on {service.name}: {figures.first_error}", flush=True)
        return figures

    def row(self, cell: str, service: Service, figures: Figures, *, who: str = "", note: str = "") -> Row:
        """Add a line with all figures of one run."""
        row = Row(
            cell=cell, who=who or service.name, p50_ms=figures.p50_ms, p99_ms=figures.p99_ms,
            rate=figures.rate, cpu_us=figures.cpu_us(service.name), errors=figures.errors, note=note,
        )  # fmt: skip
        self.report.rows.append(row)
        return row

    def target(self, what: str, value: float, bound: float, *, at_most: bool, unit: str = "") -> None:
        """Add a figure with its bound."""
        self.report.targets.append(Target(what=what, value=value, bound=bound, at_most=at_most, unit=unit))


def counts(upstream: Service) -> dict[str, int]:
    """Ask the canned upstream what it was asked."""
    with urllib.request.urlopen(f"http://127.0.0.1:{upstream.port}/stats") as answer:
        found: dict[str, int] = json.load(answer)
        return found
