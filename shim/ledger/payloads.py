"""Where what tasks carry is kept: in the ledger's file, or, with `store_results = false`, in memory (DUR-8).

The parts of the ledger write rows without asking where their payloads go. In the file a payload stands in
its column. In memory it is kept under its owner, the column is empty, and a question's text leaves a mark
there, by which the same question is known again.
"""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from shim.hub import rawjson
from shim.hub.rawjson import RawJsonError
from shim.ledger.records import IdemRow, InputRow, TaskRow
from shim.wire.errors import all_in_use

R = TypeVar("R", bound=msgspec.Struct)

Owner = tuple[str | int, ...]
"""Whose payloads they are: a task's, its questions', a keyed call's."""
Rank = Literal["again", "only", "pinned"]
"""What goes first when there is too much: what the upstream can give again, what only the shim has, never."""
Value = bytes | str

KEY = "limits.kept_bytes"

_MARK = b"\0"
"""Begins what stands in place of a question's text; JSON never begins so."""
_OWNER_BYTES = 256
"""What an owner costs beside its payloads."""
_RANKS: Sequence[Rank] = ("again", "only", "pinned")


class Payloads:
    """Payloads in the file."""

    in_file = True

    def column(self, value: Value | None) -> Value | None:
        """Give what the file gets of a payload."""
        return value

    def mark(self, text: bytes) -> bytes:
        """Give what the file gets of a question's text."""
        return text

    def bare(self, record: R, *_names: str) -> R:
        """Give a record as the file gets it: these fields are payloads."""
        return record

    def tool_error(self, _result: bytes | None) -> bool:
        """Tell whether a result that does not go into the file is a tool's error."""
        return False

    def keep(self, owner: Owner, rank: Rank, payloads: Mapping[str, Value | None]) -> None:
        """Take what a row carries, once the row is written; None takes away."""

    def ensure(self, more: int) -> None:
        """See that so much of what must not be lost can still be kept. Raises ClientFault."""

    def drop(self, owner: Owner) -> None:
        """Forget what was kept."""

    def task(self, row: TaskRow) -> TaskRow:
        """Give a task that was read with what it carries."""
        return row

    def result(self, _pk: int, column: bytes | None) -> bytes | None:
        """Give a task's result, of which that was read."""
        return column

    def question(self, row: InputRow) -> InputRow:
        """Give a question that was read with its text; `lost` where that is not kept any more."""
        return _lost(row) if row.params.startswith(_MARK) else row

    def keyed(self, row: IdemRow) -> IdemRow:
        """Give a keyed call that was read with its answer."""
        return row


class InMemory(Payloads):
    """Payloads in memory, within a bound: what is pinned stays, of the rest the oldest makes way."""

    in_file = False

    def __init__(
        self, at_most: Callable[[], int], on_full: Callable[[], None], *, secret: bytes | None = None
    ) -> None:
        """`secret` is what questions are known again by after a restart; without one they are not."""
        self._at_most = at_most
        self._on_full = on_full
        self._secret = secret or secrets.token_bytes(32)
        self._kept: Mapping[Rank, OrderedDict[Owner, dict[str, Value]]] = {
            rank: OrderedDict() for rank in _RANKS
        }
        self._bytes: dict[Rank, int] = dict.fromkeys(_RANKS, 0)

    def column(self, _value: Value | None) -> None:
        """Give nothing."""

    def mark(self, text: bytes) -> bytes:
        """Give what tells this text from others, to who has the secret."""
        return _MARK + hashlib.blake2b(text, key=self._secret, digest_size=16).digest()

    def bare(self, record: R, *names: str) -> R:
        """Give the record without them."""
        return replace(record, **dict.fromkeys(names))

    def tool_error(self, result: bytes | None) -> bool:
        """Read the one thing of a result that a task's state depends on (LM-GET)."""
        try:
            return result is not None and rawjson.members(result).get("isError") == b"true"
        except RawJsonError:
            return False

    def keep(self, owner: Owner, rank: Rank, payloads: Mapping[str, Value | None]) -> None:
        """Keep it; then what is too much makes way."""
        values = {**self._take(owner), **payloads}
        kept = {name: value for name, value in values.items() if value is not None}
        if kept:
            self._kept[rank][owner] = kept
            self._bytes[rank] += _weigh(kept)
        while sum(self._bytes.values()) > self._at_most():
            oldest = next((one for rank in ("again", "only") for one in self._kept[rank]), None)
            if oldest is None:
                return
            self._on_full()
            self._take(oldest)

    def ensure(self, more: int) -> None:
        """See that it fits beside what is pinned; everything else makes way for that. Raises ClientFault."""
        if self._bytes["pinned"] + _OWNER_BYTES + more > self._at_most():
            raise all_in_use(
                f"too much waits to be asked and answered ({KEY}): come back later",
                limit=KEY,
                retry_after_s=1,
            )

    def drop(self, owner: Owner) -> None:
        """Forget it."""
        self._take(owner)

    def task(self, row: TaskRow) -> TaskRow:
        """Fill in what is kept."""
        kept = self._of(of_task(row.pk))
        return replace(row, **kept) if kept else row

    def result(self, pk: int, _column: bytes | None) -> bytes | None:
        """Give it where it is kept."""
        return self._of(of_task(pk)).get("result")

    def question(self, row: InputRow) -> InputRow:
        """Fill in what is kept."""
        kept = self._of(of_questions(row.task_pk))
        text, response = (kept.get(name) for name in names_of(row.key))
        row = replace(row, response=response)
        return _lost(row) if text is None else replace(row, params=text)

    def keyed(self, row: IdemRow) -> IdemRow:
        """Fill in what is kept."""
        kept = self._of(of_call(row.caller, row.key))
        return replace(row, **kept) if kept else row

    def _of(self, owner: Owner) -> Mapping[str, Any]:
        return next((kept[owner] for kept in self._kept.values() if owner in kept), {})

    def _take(self, owner: Owner) -> dict[str, Value]:
        for rank, kept in self._kept.items():
            if (values := kept.pop(owner, None)) is not None:
                self._bytes[rank] -= _weigh(values)
                return values
        return {}


def of_task(pk: int) -> Owner:
    """Name a task as an owner."""
    return ("task", pk)


def of_questions(pk: int) -> Owner:
    """Name a task's questions as an owner."""
    return ("questions", pk)


def of_call(caller: str, key: str) -> Owner:
    """Name a keyed call as an owner."""
    return ("call", caller, key)


def names_of(key: str) -> tuple[str, str]:
    """Name a question's text and its answer among those of its task."""
    return f"params {key}", f"response {key}"


def _weigh(values: Mapping[str, Value]) -> int:
    return _OWNER_BYTES + sum(map(len, values.values()))


def _lost(row: InputRow) -> InputRow:
    return replace(row, params=b"{}", state="lost" if row.state == "outstanding" else row.state)
