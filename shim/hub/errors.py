"""The error codes of both eras, from `mappings/errors.toml`."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from shim.hub import toml
from shim.hub.facts import Name, Table

_OK = 200


class ErrorCode(Table):
    """A JSON-RPC error code, its HTTP status by era (false: never sent there) and what it means."""

    code: int
    modern: int | Literal[False]
    legacy: int | Literal[False]
    meaning: Name

    @property
    def eras(self) -> frozenset[str]:
        """Give the eras that have the code."""
        return frozenset(era for era in ("modern", "legacy") if getattr(self, era) is not False)


class ErrorTable(Mapping[str, ErrorCode]):
    """Error codes by name."""

    def __init__(self, codes: Mapping[str, ErrorCode]) -> None:
        self._codes = dict(codes)

    def __getitem__(self, name: str) -> ErrorCode:
        return self._codes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._codes)

    def __len__(self) -> int:
        return len(self._codes)

    def status(self, code: int, era: str) -> int:
        """Give the HTTP status that a code has in an era; 200 where the table does not say."""
        return next((getattr(one, era) or _OK for one in self.values() if one.code == code), _OK)

    def code(self, name: str) -> int:
        """Give the JSON-RPC code of that name. Raises KeyError."""
        return self._codes[name].code


_adapter = TypeAdapter(dict[str, ErrorCode])


def load_error_table(text: str, source: str) -> ErrorTable:
    """Read the table; refused are a repeated code and one that no era has. Raises DialectError."""
    try:
        codes = _adapter.validate_python(toml.parse(text, source))
    except ValidationError as exc:
        first = exc.errors()[0]
        path = tuple(str(part) for part in first["loc"])[:2]
        raise toml.fault(
            text, source, path, "is missing" if first["type"] == "missing" else first["msg"]
        ) from exc
    seen: dict[int, str] = {}
    for name, one in codes.items():
        if not one.eras:
            raise toml.fault(text, source, (name,), "stands in no era")
        if one.code in seen:
            raise toml.fault(text, source, (name, "code"), f"{one.code} is {seen[one.code]} already")
        seen[one.code] = name
    return ErrorTable(codes)
