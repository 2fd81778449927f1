"""TOML tables whose faults are told with their place."""

import re
import tomllib

Path = tuple[str, ...]


class TableError(ValueError):
    """A table cannot be used; the message says where and why."""


def parse(text: str, source: str) -> dict[str, object]:
    """Read TOML. Raises TableError with the line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        found = re.search(r"line (\d+)", str(exc))
        line = found[1] if found else text.count("\n") + 1
        raise TableError(f"{source}:{line}: not TOML: {exc}") from exc


def line_of(text: str, path: Path) -> int:
    """Find the line of a key, else of the table where it should stand, else the first."""
    section, found = "", 1
    for index, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[([^\]]+)\]", line):
            section = header[1].strip()
            if section == path[0]:
                found = index
        elif key := re.match(r"\s*[\"']?([^\"'=\s]+)[\"']?\s*=", line):
            here = (section, key[1]) if section else (key[1],)
            if here == path[: len(here)]:
                return index
    return found


def fault(text: str, source: str, path: Path, what: str) -> TableError:
    """Build the error for a fault at a path."""
    return TableError(f"{source}:{line_of(text, path)}: {'.'.join(path)}: {what}")
