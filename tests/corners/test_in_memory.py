"""The scenes of every corner once more with `ledger.store_results = false` (DUR-8).

While the shim runs they come out the same, and no file of the ledger's holds what was planted.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.corners import (
    test_keyed,
    test_keys_across,
    test_lm_create,
    test_lm_input,
    test_lm_mrtr,
    test_lm_result,
    test_ml_ends,
    test_ml_input,
    test_ml_mrtr,
    test_ml_mrtr_off,
    test_mm,
    test_mm_tasks,
    test_promote,
    test_promote_legacy,
    test_promote_listen,
    test_shadow,
)
from tests.corners.ml import corner
from tests.planted import in_ledgers
from tests.scripted import Scripted, task, text
from tests.shim import DEFAULTS

_SCENES: Mapping[ModuleType, frozenset[str]] = {
    test_keyed: frozenset(),
    test_keys_across: frozenset(),
    test_lm_create: frozenset({"test_local_tasks_are_there_after_a_restart"}),
    test_lm_input: frozenset({"test_an_acknowledged_answer_is_delivered_after_a_restart"}),
    test_lm_mrtr: frozenset(),
    test_lm_result: frozenset(),
    test_ml_ends: frozenset(),
    test_ml_input: frozenset(),
    test_ml_mrtr: frozenset({"test_each_round_under_a_key_is_answered_once"}),
    test_ml_mrtr_off: frozenset(),
    test_mm: frozenset(),
    test_mm_tasks: frozenset(),
    test_promote: frozenset(
        {
            "test_what_becomes_of_a_call_whose_shim_died",
            "test_a_second_death_of_the_shim_is_the_end_of_the_call",
        }
    ),
    test_promote_legacy: frozenset(),
    test_promote_listen: frozenset(),
    test_shadow: frozenset(),
}
"""What is played, without the scenes that go on after a restart with what the file has."""


def _scenes() -> Iterator[tuple[str, Any]]:
    for module, without in _SCENES.items():
        there = {name: one for name, one in vars(module).items() if name.startswith("test_")}
        assert without <= there.keys()
        where = module.__name__.rpartition(".test_")[2]
        yield from ((f"{name}__{where}", one) for name, one in there.items() if name not in without)


globals().update(_scenes())


@pytest.mark.rule("DUR-8")
async def test_the_scan_finds_what_is_in_a_file(
    upstream: Scripted, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("in-file")
    upstream.on("tasks/get", task(status="completed"))
    upstream.on("tasks/result", text("done"))
    async with corner(upstream, folder, ledger={"store_results": True}) as ml:
        await ml.create()
        await ml.until("task-1", "completed")
        assert in_ledgers(folder)
    assert in_ledgers(folder)


@pytest.fixture(autouse=True)
def _in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(DEFAULTS, "ledger", {"store_results": False})
    yield
    assert in_ledgers(tmp_path) == []
