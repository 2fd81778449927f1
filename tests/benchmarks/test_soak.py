"""The soak's clients come to what they must on every shim, and its verdict finds growth and nothing else."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak.actors import ACTORS, CALLER, Soaked, does_not_read
from benchmarks.soak.growth import MEASURES, judge, slope
from benchmarks.soak.server import SOAK_TOOLS
from benchmarks.soak.watched import held
from shim.app import running
from shim.demo import experimental, modern
from tests.shim import config_for

SECTIONS: dict[str, Any] = {
    "identity": {"sources": ["header"], "header": {"name": CALLER}},
    "upstream": {"tool_support": {"confirm": "forbidden"}},
}


@pytest.mark.parametrize("server", [experimental, modern], ids=["legacy", "modern"])
async def test_each_client_comes_to_what_it_must(server: Any, tmp_path: Path) -> None:
    runner, url = await server.start(tools=SOAK_TOOLS, poll_interval_ms=50)
    try:
        async with running(config_for(url, tmp_path, **SECTIONS)) as app:
            soaked = Soaked(app.url, seed=1)
            await asyncio.gather(*(actor(soaked) for actor in ACTORS if actor is not does_not_read))
            seen = held(app.config)
    finally:
        await runner.cleanup()
    assert seen["ledger_rows"] > 10
    assert all(seen[measure.name] > 0 for measure in MEASURES)
    assert any("ledger-writer" in place for place in seen["waits"])


def samples(minutes: int = 30, seed: int = 3, **by: float) -> list[dict[str, float]]:
    """Figures that come and go by chance, and grow `by` so much a minute; the first ten minutes rise fast."""
    dice = random.Random(seed)  # noqa: S311 - noise
    level = {
        "rss_kib": 80_000.0,
        "in_use_kib": 18_000.0,
        "blocks": 320_000.0,
        "descriptors": 200.0,
        "tasks": 200.0,
        "objects": 60_000.0,
        "ledger_kib": 6_000.0,
        "ledger_rows": 3_000.0,
    }
    return [
        {
            name: at * min(1.0, 0.5 + minute / 20) * dice.uniform(0.98, 1.02) + by.get(name, 0.0) * minute
            for name, at in level.items()
        }
        for minute in range(minutes)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_and_goes_does_not_grow(seed: int) -> None:
    assert [one.measure.name for one in judge(samples(seed=seed), 10) if one.grows] == []


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("rss_kib", 400.0),
        ("in_use_kib", 90.0),
        ("blocks", 1_600.0),
        ("descriptors", 3.0),
        ("tasks", 3.0),
        ("objects", 300.0),
        ("ledger_kib", 80.0),
    ],
)
def test_a_leak_is_found(name: str, by: float) -> None:
    assert [one.measure.name for one in judge(samples(**{name: by}), 10) if one.grows] == [name]


def test_rows_of_the_ledger_explain_what_they_cost() -> None:
    grown = judge(samples(ledger_rows=500.0, ledger_kib=1_000.0, objects=2_000.0), 10)
    assert not [one.measure.name for one in grown if one.grows]


def test_every_measure_is_judged() -> None:
    assert [one.measure for one in judge(samples(), 10)] == list(MEASURES)
    assert slope([1.0, 2.0, 3.0, 400.0, 5.0]) == pytest.approx(1.0, abs=0.01)
