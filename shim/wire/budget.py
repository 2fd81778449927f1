"""The bytes that wait in memory, of all requests together: bodies, answers, what is kept for clients."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from shim.wire.errors import all_in_use

KEY = "limits.buffer_bytes"


class Budget:
    """Counts the bytes that are held, against `limits.buffer_bytes`; None: without a bound."""

    def __init__(self, at_most: Callable[[], int] | None = None) -> None:
        self._at_most = at_most
        self.used = 0

    def fits(self, more: int) -> bool:
        """Tell whether so many bytes more can be held."""
        return self._at_most is None or self.used + more <= self._at_most()

    def holding(self) -> "Holding":
        """Hold bytes while a block runs."""
        return Holding(self)


class Holding:
    """What one holder has of the budget; as a context manager it gives all of it back."""

    __slots__ = ("_budget", "_bytes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.count(-self._bytes)

    def add(self, more: int) -> None:
        """Hold more. Raises ClientFault 503 where that is beyond the bound."""
        if not self._budget.fits(more):
            raise all_in_use(
                "the shim's buffers are full (limits.buffer_bytes): come back later",
                limit=KEY,
                retry_after_s=1,
            )
        self.count(more)

    def fits(self, more: int) -> bool:
        """Hold more if it is within the bound; False where it is not."""
        fits = self._budget.fits(more)
        if fits:
            self.count(more)
        return fits

    def count(self, more: int) -> None:
        """Hold more, or less, whatever the bound."""
        self._bytes += more
        self._budget.used += more

    def set(self, there_are: int) -> None:
        """Hold so many, whatever the bound."""
        self.count(there_are - self._bytes)
