"""Who waits for a change of which task, or for a new one of whose."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from shim.ledger.records import TaskRow

K = TypeVar("K")
V = TypeVar("V")


class Changes:
    """Wakes whoever waits for a task's next change."""

    def __init__(self) -> None:
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._expecting: dict[str, set[Callable[[int], None]]] = {}
        self._ends: dict[int, Callable[[TaskRow], None]] = {}

    @contextmanager
    def watching(self, pk: int, wake: asyncio.Event | None = None) -> Iterator[asyncio.Event]:
        """Give an event that is set at every change of the task (`wake`, if given); the watcher clears it."""
        event = wake or asyncio.Event()
        with _among(self._waiting, pk, event):
            yield event

    @contextmanager
    def expecting(self, caller: str, note: Callable[[int], None]) -> Iterator[None]:
        """Let every new task of a caller's be noted, by its key."""
        with _among(self._expecting, caller, note):
            yield

    def watched(self, pk: int) -> bool:
        """Tell whether someone waits for the task."""
        return pk in self._waiting

    @property
    def waited_for(self) -> Iterable[int]:
        """The keys of the tasks that someone waits for."""
        return self._waiting.keys()

    def publish(self, pk: int) -> None:
        """Wake everyone who waits for the task."""
        for event in self._waiting.get(pk, ()):
            event.set()

    def await_end(self, pk: int, hear: Callable[[TaskRow], None]) -> None:
        """Call `hear` once, when the task ends. Nobody asks the server for the sake of it."""
        self._ends[pk] = hear

    def leave(self, pk: int) -> None:
        """Take `await_end` back."""
        self._ends.pop(pk, None)

    def ended(self, row: TaskRow) -> None:
        """Tell of a task that has ended."""
        if (hear := self._ends.pop(row.pk, None)) is not None:
            hear(row)

    def made(self, caller: str, pk: int) -> None:
        """Tell of a new task."""
        for note in list(self._expecting.get(caller, ())):
            note(pk)


@contextmanager
def _among(waiting: dict[K, set[V]], key: K, one: V) -> Iterator[None]:
    waiting.setdefault(key, set()).add(one)
    try:
        yield
    finally:
        waiting[key].discard(one)
        if not waiting[key]:
            del waiting[key]
