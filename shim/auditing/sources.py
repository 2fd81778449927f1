"""Which files are read: paths, globs, `.gz` by content, standard input."""

import glob
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

STDIN = "-"
_GZIP = b"\x1f\x8b"


class AuditingError(Exception):
    """The logs cannot be read, or what was asked about them cannot be understood; the message says why."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Files to read, each once, by how they are packed."""

    plain: tuple[Path, ...]
    gzipped: tuple[Path, ...]

    @property
    def every(self) -> tuple[Path, ...]:
        """All of them."""
        return self.plain + self.gzipped


def find(named: Iterable[str], stdin: BinaryIO, folder: Path) -> Sources:
    """Find the files of paths and globs; `-` is standard input, kept in `folder`. Raises AuditingError."""
    found: dict[Path, None] = {}
    for name in named:
        if name == STDIN:
            found.setdefault(_spooled(stdin, folder))
            continue
        paths = [Path(name)] if Path(name).exists() else _matching(name)
        if not paths:
            raise AuditingError(f"{name}: there is no such file")
        for path in paths:
            if not path.is_file():
                raise AuditingError(f"{path}: is no file")
            found.setdefault(path.resolve())
    packed: dict[bool, list[Path]] = {False: [], True: []}
    for path in found:
        packed[_gzipped(path)].append(path)
    return Sources(tuple(packed[False]), tuple(packed[True]))


def _matching(pattern: str) -> list[Path]:
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207 - pathlib takes no absolute patterns
    return sorted(map(Path, found))


def _spooled(stdin: BinaryIO, folder: Path) -> Path:
    path = folder / "standard-input"
    if not path.exists():
        with path.open("wb") as file:
            shutil.copyfileobj(stdin, file, 1 << 20)
    return path


def _gzipped(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == _GZIP
    except OSError as exc:
        raise AuditingError(f"{path}: {exc.strerror}") from exc
