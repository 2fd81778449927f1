"""Who waits for a change of which task."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """Wakes whoever waits for a task's next change."""

    def __init__(self) -> None:
        self._waiting: dict[int, set[asyncio.Event]] = {}

    @contextmanager
    def watching(self, pk: int, wake: asyncio.Event | None = None) -> Iterator[asyncio.Event]:
        """Give an event that is set at every change of the task (`wake`, if given); the watcher clears it."""
        event = wake or asyncio.Event()
        self._waiting.setdefault(pk, set()).add(event)
        try:
            yield event
        finally:
            watchers = self._waiting[pk]
            watchers.discard(event)
            if not watchers:
                del self._waiting[pk]

    def watched(self, pk: int) -> bool:
        """Tell whether someone waits for the task."""
        return pk in self._waiting

    def publish(self, pk: int) -> None:
        """Wake everyone who waits for the task."""
        for event in self._waiting.get(pk, ()):
            event.set()
