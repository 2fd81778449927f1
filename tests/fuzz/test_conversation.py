"""Conversations in any order, a few in CI; `TASKSHIM_CONVERSATIONS=500` runs so many of each server."""

import os
from importlib import import_module

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.conversation import Conversation, NewServer, OldServer
from tests.fuzz.faults import planted

IN_CI = 3
AT_MOST = 30
STEPS = 25
COUNT = int(os.environ.get("TASKSHIM_CONVERSATIONS", IN_CI))

pytestmark = pytest.mark.timeout(120 + 30 * COUNT)


def converse(machine: type[Conversation], count: int, *, shrink: bool = True) -> None:
    """Run so many conversations; the same ones each time, unless many are asked for."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=count, stateful_step_count=STEPS, deadline=None, derandomize=COUNT == IN_CI,
            database=None, suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
            phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
        ),
    )  # fmt: skip


@pytest.mark.rule("OWN-CHECK", "KEYS", "HUB-2")
@pytest.mark.parametrize("machine", [OldServer, NewServer])
def test_whatever_comes_in_whatever_order(machine: type[Conversation]) -> None:
    converse(machine, COUNT)


@pytest.mark.parametrize(
    ("machine", "module", "before", "after", "found"),
    [
        (
            OldServer,
            "callers.keys",
            "_bytes(value)).hex()",
            'b"").hex()',
            "that it is there is told|a foreign task",
        ),
        (
            NewServer,
            "wire.hosting",
            "bare = bare_result(result)",
            "bare = result",
            "a key of the new era is told",
        ),
    ],
)
def test_a_planted_fault_is_found(
    machine: type[Conversation], module: str, before: str, after: str, found: str
) -> None:
    with planted(import_module(f"shim.{module}"), before, after), pytest.raises(AssertionError, match=found):
        converse(machine, AT_MOST, shrink=False)
