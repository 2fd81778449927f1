"""What was used last, in memory, so that a poll of a known task costs no read of the disk."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The values used last, bounded in number and in what they weigh.

    Writers say what is true (`put`, `drop`). A reader whose read of the disk began before a write never
    covers what the writer said.
    """

    def __init__(self, most: int, *, most_weight: int = 0, weigh: Callable[[V], int] = lambda _: 0) -> None:
        self._most = most
        self._most_weight = most_weight
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[K, V] = OrderedDict()
        self._reading: dict[K, object] = {}

    def get(self, key: K) -> V | None:
        """Give a value and note that it is used."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> V:
        """Take a value that was written."""
        self.drop(key)
        self._values[key] = value
        self._weight += self._weigh(value)
        while len(self._values) > self._most or self._weight > self._most_weight:
            _, old = self._values.popitem(last=False)
            self._weight -= self._weigh(old)
        return value

    def drop(self, key: K) -> None:
        """Forget a value that is no longer true."""
        self._reading.pop(key, None)
        old = self._values.pop(key, None)
        if old is not None:
            self._weight -= self._weigh(old)

    async def get_or_read(self, key: K, read: Callable[[], Awaitable[V | None]]) -> V | None:
        """Give a value, from `read` if it is not here."""
        value = self.get(key)
        if value is not None:
            return value
        mark = self._reading[key] = object()
        try:
            value = await read()
        finally:
            undisturbed = self._reading.get(key) is mark
            if undisturbed:
                del self._reading[key]
        if not undisturbed:
            newer = self.get(key)
            return value if newer is None else newer
        return value if value is None else self.put(key, value)
