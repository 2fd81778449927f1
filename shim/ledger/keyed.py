"""The ledger's keyed calls: one claim to a key, one answer (DUR-3)."""

from shim.ledger import rows
from shim.ledger.database import Part
from shim.ledger.payloads import of_call
from shim.ledger.protocol import NOBODY
from shim.ledger.records import IdemRow

_CLAIM = rows.insert("keyed", rows.KEYED) + " ON CONFLICT DO NOTHING RETURNING key"
_GET = f"SELECT {', '.join(rows.KEYED)} FROM keyed WHERE caller = ? AND key = ?"  # noqa: S608
_FINISH = (
    "UPDATE keyed SET state = 'done', answer = ?, is_error = ?, dialect = ?, handle = ? "
    "WHERE caller = ? AND key = ?"
)
_RELEASE = "DELETE FROM keyed WHERE caller = ? AND key = ? AND state = 'pending'"


class Keyed(Part):
    """The part of the SQLite ledger that keeps keyed calls."""

    async def idem_begin(self, row: IdemRow) -> IdemRow | None:
        """Claim a key: None if this call has it now, else the row of the one that does."""
        if row.caller == NOBODY:
            raise ValueError("nobody has no idempotency keys")
        claim = (_CLAIM, rows.stored(row, rows.KEYED))
        while not await self._db.write(claim, then=lambda results: bool(results[0])):
            known = await self.idem_get(row.caller, row.key)
            if known is not None:
                return known
            # its window passed in between: claim it again
        return None

    async def idem_get(self, caller: str, key: str) -> IdemRow | None:
        """Give a key's row."""
        found = await self._db.read(_GET, caller, key)
        return self._payloads.keyed(rows.keyed(found[0])) if found else None

    async def idem_finish(
        self, caller: str, key: str, *, answer: bytes | None, is_error: bool, dialect: str,
        handle: bytes | None = None,
    ) -> None:  # fmt: skip
        """Write a keyed call's answer down; `handle` is the handle in it, which outlives the answer."""
        column = self._payloads.column(answer)
        await self._db.write(
            (_FINISH, (column, is_error, dialect, handle, caller, key)),
            then=lambda _: self._payloads.keep(of_call(caller, key), "only", {"answer": answer}),
        )

    async def idem_release(self, caller: str, key: str) -> None:
        """Give a key free whose call was turned away before it ran."""
        await self._db.run((_RELEASE, (caller, key)))
