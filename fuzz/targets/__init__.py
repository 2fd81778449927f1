"""The targets. Each module has `check(data)`, which raises where a reader does what it must not.

`SEEDS` are inputs to begin with, `WORDS` what an input is likely to be made of.
"""

import pkgutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

CORPORA = Path(__file__).parents[1] / "corpora"
NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


class Target(Protocol):
    """What a module of this folder is."""

    SEEDS: Sequence[bytes]
    WORDS: Sequence[bytes]

    def check(self, data: bytes) -> None:
        """Read an input and hold what comes of it against the oracle. Raises whatever is wrong."""


def target(name: str) -> Target:
    """Give a target by its name."""
    return cast("Target", import_module(f"{__name__}.{name}"))


def corpus(name: str) -> list[bytes]:
    """Give a target's seeds and the inputs kept of earlier runs, in the same order each time."""
    kept = sorted((CORPORA / name).glob("*"))
    return [*target(name).SEEDS, *(path.read_bytes() for path in kept)]
