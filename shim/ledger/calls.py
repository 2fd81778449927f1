"""The ledger's calls that may run once more after a kill (PROMOTE-3)."""

from shim.ledger.database import Part

_KEEP = "INSERT OR REPLACE INTO call (task_pk, params) VALUES (?, ?)"
_TAKE = "DELETE FROM call WHERE task_pk = ? RETURNING params"


class Calls(Part):
    """The part of the SQLite ledger that keeps the params of such calls; they go with the task's end."""

    async def keep_call(self, task_pk: int, params: bytes) -> None:
        """Write down what a local task's call was; it counts after a kill, so in memory it is of no use."""
        if (column := self._payloads.column(params)) is not None:
            await self._db.run((_KEEP, (task_pk, column)))

    async def take_call(self, task_pk: int) -> bytes | None:
        """Give what a local task's call was, and forget it: it runs once more, not twice."""

        def taken(results: list[list[tuple[bytes]]]) -> bytes | None:
            return results[0][0][0] if results[0] else None

        return await self._db.write((_TAKE, (task_pk,)), then=taken)
