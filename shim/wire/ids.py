"""JSON-RPC ids and progress tokens that the shim makes: none is ever used twice (IDS)."""


class IdMaker:
    """Counts within one epoch; the epoch is new for each start and on disk before its first use."""

    def __init__(self, epoch: int) -> None:
        self._prefix = b'"ts-%d-' % epoch
        self._count = 0

    def next(self) -> bytes:
        """Give the next id as a raw JSON string, `"ts-<epoch>-<n>"`."""
        self._count += 1
        return b'%b%d"' % (self._prefix, self._count)
