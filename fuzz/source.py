"""An input taken apart: small choices from its front, what is left as the bytes to read."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Source:
    """Gives parts of an input in turn; past its end there are zeros and nothing."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        """Give the next byte."""
        taken = self.take(1)
        return taken[0] if taken else 0

    def take(self, size: int) -> bytes:
        """Give the next bytes, fewer at the end."""
        taken = self._data[self._at : self._at + size]
        self._at += len(taken)
        return taken

    def short(self) -> bytes:
        """Give a piece that says its own length in one byte."""
        return self.take(self.byte())

    def pick(self, options: Sequence[T]) -> T:
        """Choose one of some."""
        return options[self.byte() % len(options)]

    def rest(self) -> bytes:
        """Give everything that is left."""
        return self.take(len(self._data))


def text_of(data: bytes) -> str:
    """Give bytes of a header as aiohttp gives them."""
    return data.decode("utf-8", "surrogateescape")
