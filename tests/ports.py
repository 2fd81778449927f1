"""Ports of the loopback interface that are known before anybody listens on them."""

import itertools
import random
import socket
from collections.abc import Iterator

_FIRST, _LAST = 15_000, 32_000
"""Below what systems hand out by themselves (32768, 49152): no connection that leaves takes one meanwhile."""


def _numbers() -> Iterator[int]:
    """Every port of the range in turn; each process begins elsewhere."""
    size = _LAST - _FIRST
    start = random.SystemRandom().randrange(size)
    return (_FIRST + (start + step) % size for step in itertools.count())


_ports = _numbers()


def free_port(*, beside: int = 0) -> int:
    """Give a port that nobody listens on, with as many free ones after it; no call gives one again."""
    while True:
        port = next(_ports)
        if all(_is_free(port + step) for step in range(beside + 1)):
            for _ in range(beside):
                next(_ports)
            return port


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True
