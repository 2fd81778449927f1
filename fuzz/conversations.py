"""Whole conversations by a state machine (tests/fuzz/conversation): so many, or for so long.

`python -m fuzz.conversations CPU_SECONDS SEED FOLDER` leads them in turn with each server, and writes what is
wrong to the folder, with the steps that led there.
"""

import sys
import time
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path

import click
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fuzz.conversation import Conversation, FourStateServer, NewServer, OldServer
from tests.fuzz.conversation.model import Wrong

STEPS = 40
SERVERS: Mapping[str, type[Conversation]] = {
    "old": OldServer,
    "new": NewServer,
    "four-state": FourStateServer,
}
"""The servers that conversations are led with; clients of every API take part in each."""
_AT_ONCE = 3
"""Conversations of one seed: the first is the shortest that there is, and later ones are much like each other."""


def converse(server: str, seeds: Iterable[int], *, shrink: bool = False) -> None:
    """Lead conversations, the same ones each time for the same seeds. Raises whatever is wrong."""
    for number in seeds:
        Wrong.found.clear()
        try:
            _one(server, number, shrink=shrink)
        except Exception as exc:
            first = Wrong.found[0] if Wrong.found else exc  # asked again, it may come about otherwise
            first.add_note(f"conversation {number} with the server {server!r}")
            raise first from exc


def _one(server: str, number: int, *, shrink: bool) -> None:
    machine = seed(number)(type(SERVERS[server].__name__, (SERVERS[server],), {}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=_AT_ONCE, stateful_step_count=STEPS, deadline=None, database=None,
            derandomize=False, suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
            phases=[Phase.generate, *([Phase.shrink] if shrink else [])],
        ),
    )  # fmt: skip


def main(cpu_seconds: float, begins_at: int, folder: Path) -> None:
    """Lead conversations until so much of the CPU is used; says how many there were."""
    led = number = 0
    while time.process_time() < cpu_seconds:
        for server in SERVERS:
            before = Conversation.led
            try:
                converse(server, [begins_at + number])
            except Exception as exc:  # noqa: BLE001 - whatever is wrong is written down, and the next one is led
                told = "".join(traceback.format_exception(exc))
                (folder / f"conversations-{server}-{begins_at + number}").write_text(told, "utf-8")
            led += Conversation.led - before
        number += 1
    click.echo(f"conversations: {led}")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
