"""What is said in the same words on every request is read once."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

_MOST = 1_024
_MOST_BYTES = 2_048


def remembered(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Wrap a reader that depends on its bytes alone and gives what nobody changes.

    Only small inputs are kept, and only so many; what `read` raises is not kept.
    """
    kept = lru_cache(_MOST)(read)

    def reader(data: bytes) -> T:
        return kept(data) if len(data) <= _MOST_BYTES else read(data)

    return reader
