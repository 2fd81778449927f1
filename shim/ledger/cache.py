"""Hot task rows in memory, so that a poll of a known task costs no read of the disk."""

from collections import OrderedDict

from shim.ledger.records import TaskRow


class RowCache:
    """The rows used last, by key and by id; the owner is checked by whoever asks."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: OrderedDict[int, TaskRow] = OrderedDict()
        self._keys: dict[str, int] = {}

    def put(self, row: TaskRow) -> TaskRow:
        """Keep a row as it now is."""
        self._rows[row.pk] = row
        self._rows.move_to_end(row.pk)
        self._keys[row.task_id] = row.pk
        if len(self._rows) > self._size:
            _, old = self._rows.popitem(last=False)
            self._keys.pop(old.task_id, None)
        return row

    def by_key(self, pk: int) -> TaskRow | None:
        """Give a row by its key."""
        return self._rows.get(pk)

    def by_id(self, task_id: str) -> TaskRow | None:
        """Give a row by its task id."""
        pk = self._keys.get(task_id)
        return None if pk is None else self._rows.get(pk)

    def drop(self, pk: int) -> None:
        """Forget a row."""
        row = self._rows.pop(pk, None)
        if row is not None:
            self._keys.pop(row.task_id, None)
