"""Audit logs in a DuckDB of their own, on disk, within a memory limit; gone when it is closed."""

import contextlib
import functools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from shim.auditing.chained import Chained, carries_macs, chained
from shim.auditing.period import Period
from shim.auditing.sources import AuditingError, Sources, find

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "512MB"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events are looked at; None is any. A field that an event does not have fits no filter of it."""

    caller: str | None = None
    """A label, or the beginning of a hash."""
    client: str | None = None
    """A name, or name and version."""
    tool: str | None = None
    upstream: str | None = None
    era: str | None = None
    corner: str | None = None


class Logs:
    """Logs that were read. `line` holds each event once; `seen` what `look` chose of it."""

    def __init__(self, db: "DuckDBPyConnection", sources: Sources, keys: Sequence[bytes]) -> None:
        self._db = db
        self._answered: dict[str, list[Row]] = {}
        self._sources = sources
        self._keys = keys
        self.files = len(sources.every)
        self.duplicates = self._once()
        self.span = self._span()

    @functools.cached_property
    def chained(self) -> Chained | None:
        """What the lines' macs say; None without a key. Reads the files once more. Raises AuditingError."""
        return chained(self._sources, self._keys) if self._keys else None

    @property
    def unjudged(self) -> bool:
        """Whether there are macs and no key was given to judge them. Raises AuditingError."""
        return not self._keys and carries_macs(self._sources)

    def look(self, period: Period, wanted: Filter = Filter()) -> None:
        """Choose the period and the events that `seen` has."""
        for name, value in {**asdict(period), **asdict(wanted)}.items():
            self._db.execute(f"SET VARIABLE {name} = $value", {"value": value})

    def rows(self, sql: str, **values: Any) -> list[Row]:
        """Ask, and give rows by column name. Raises AuditingError."""
        with _told():
            answer = self._db.execute(sql, values)
            names = [column[0] for column in answer.description or ()]
            return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    def rows_once(self, sql: str) -> list[Row]:
        """Ask what does not depend on the period, the first time; give the same answer from then on."""
        if sql not in self._answered:
            self._answered[sql] = self.rows(sql)
        return self._answered[sql]

    def row(self, sql: str, **values: Any) -> Row:
        """Ask for what is one row."""
        [row] = self.rows(sql, **values)
        return row

    def _once(self) -> int:
        """Keep each identity once, the first of it; put aside what cannot be read; give the repeated."""
        for statement in _sql("once").split(";\n"):
            self.rows(statement)
        return int(self.row("SELECT count(*) AS n FROM repeated")["n"])

    def _span(self) -> Period | None:
        ends = self.row("SELECT min(ts) AS first, max(ts) AS last FROM line")
        return (
            None if ends["first"] is None else Period(ends["first"], ends["last"] + timedelta(microseconds=1))
        )


@contextlib.contextmanager
def reading(
    named: Iterable[str], stdin: BinaryIO, *, memory: str = MEMORY, keys: Sequence[bytes] = ()
) -> Iterator[Logs]:
    """Read logs, in a folder for the time being; `keys` may have signed them. Raises AuditingError."""
    with tempfile.TemporaryDirectory(prefix="taskshim-audit-") as name:
        folder = Path(name)
        sources = find(named, stdin, folder)
        with _told(), contextlib.closing(_opened(folder, memory)) as db:
            _load(db, sources)
            yield Logs(db, sources, keys)


def _opened(folder: Path, memory: str) -> "DuckDBPyConnection":
    try:
        import duckdb  # noqa: PLC0415 - the extra `audit` may not be there
    except ImportError:
        raise AuditingError("DuckDB is missing: pip install 'taskshim[audit]'") from None
    return duckdb.connect(
        folder / "logs.duckdb",
        config={
            "memory_limit": memory,
            "temp_directory": str(folder / "spill"),
            "autoinstall_known_extensions": "false",
        },
    )


def _load(db: "DuckDBPyConnection", sources: Sources) -> None:
    db.execute(_sql("load"))
    groups: Sequence[tuple[tuple[Path, ...], str]] = [
        (sources.plain, "none"),
        (sources.gzipped, "gzip"),
    ]
    made = False
    for paths, packing in groups:
        if paths:
            into = "INSERT INTO line" if made else "CREATE TABLE line AS"
            db.execute(
                f"{into} FROM lines_of($files, $packing)",
                {"files": list(map(str, paths)), "packing": packing},
            )
            made = True
    db.execute(_sql("views"))


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say what DuckDB could not do in one line."""
    try:
        yield
    except AuditingError:
        raise
    except Exception as exc:
        if type(exc).__module__.partition(".")[0] not in {"duckdb", "_duckdb"}:
            raise
        raise AuditingError(str(exc).partition("\n")[0]) from exc


def _sql(name: str) -> str:
    return resources.files("shim.auditing").joinpath("sql", f"{name}.sql").read_text("utf-8")
