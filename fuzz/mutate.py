"""Inputs made of others, with nothing but a seed: what the short run in CI feeds to the targets."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

_MOST_STEPS = 5
_MOST_BYTES = 4_096


def inputs(corpus: Sequence[bytes], words: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Give inputs without end, the same for the same seed."""
    random = Random(seed)
    corpus = corpus or [b""]
    while True:
        data = random.choice(corpus)
        for _ in range(random.randint(1, _MOST_STEPS)):
            data = random.choice(_STEPS)(random, data, corpus, words)
        yield data[:_MOST_BYTES]


def _place(random: Random, data: bytes) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.choice((0, 1, 1, 2, 4, 8, 64)))


def _flip(random: Random, data: bytes, _corpus: Sequence[bytes], _words: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def _byte(random: Random, data: bytes, _corpus: Sequence[bytes], _words: Sequence[bytes]) -> bytes:
    start, end = _place(random, data)
    return data[:start] + random.randbytes(random.randint(0, 2)) + data[end:]


def _word(random: Random, data: bytes, _corpus: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    start, end = _place(random, data)
    return data[:start] + (random.choice(words) if words else b"") + data[random.choice((start, end)) :]


def _copy(random: Random, data: bytes, _corpus: Sequence[bytes], _words: Sequence[bytes]) -> bytes:
    start, end = _place(random, data)
    at = random.randint(0, len(data))
    return data[:at] + data[start:end] + data[at:]


def _splice(random: Random, data: bytes, corpus: Sequence[bytes], _words: Sequence[bytes]) -> bytes:
    other = random.choice(corpus)
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


_STEPS: Sequence[Callable[[Random, bytes, Sequence[bytes], Sequence[bytes]], bytes]] = (
    _flip, _byte, _word, _word, _copy, _splice,
)  # fmt: skip
