"""Second opinions, written apart from the shim's readers so that both cannot err alike."""

import json
from dataclasses import dataclass
from typing import Any, NoReturn


@dataclass(frozen=True)
class Pairs:
    """A JSON object with all its members, repeated ones too."""

    items: tuple[tuple[str, Any], ...]

    def repeats(self) -> bool:
        """Tell whether a key stands twice, be it in another case."""
        return len({key.lower() for key, _ in self.items}) < len(self.items)

    def get(self, key: str) -> Any:
        """Give the last member of a name, None without one."""
        return dict(self.items).get(key)


class NotJson(ValueError):
    """The bytes are no JSON."""


class TooDeep(Exception):
    """Python cannot tell."""


def loads(data: bytes) -> Any:
    """Give a JSON value, objects as `Pairs`. Raises NotJson, TooDeep."""
    return _loads(data, lambda items: Pairs(tuple(items)))


def plain(data: bytes) -> Any:
    """Give a JSON value, objects as dicts. Raises NotJson, TooDeep."""
    return _loads(data, None)


def _loads(data: bytes, pairs: Any) -> Any:
    try:
        text = data.decode()
        return json.loads(text, object_pairs_hook=pairs, parse_constant=_refused, parse_int=_integer)
    except ValueError as exc:
        raise NotJson from exc
    except RecursionError as exc:
        raise TooDeep from exc


def _refused(name: str) -> NoReturn:
    raise ValueError(name)


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def events(stream: bytes) -> list[tuple[str, bytes | None, str | None, int | None]]:
    """Read a finished stream as the HTML standard does: (event, data, id, retry) of each block that ended.

    Blocks without data count too: the shim passes them on.
    """
    lines = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    lines.pop()  # what no line end follows is no line
    found: list[tuple[str, bytes | None, str | None, int | None]] = []
    event: bytes = b""
    data: bytes | None = None
    event_id: str | None = None
    retry: int | None = None
    for line in lines:
        if not line:
            name = event.decode("utf-8", "replace") or "message"
            found.append((name, data, event_id, retry))
            event, data, event_id, retry = b"", None, None, None
            continue
        at = line.find(b":")
        field, value = (line, b"") if at < 0 else (line[:at], line[at + 1 :])
        if value[:1] == b" ":
            value = value[1:]
        if field == b"event":
            event = value
        elif field == b"data":
            data = value if data is None else b"%b\n%b" % (data, value)
        elif field == b"id" and 0 not in value:
            event_id = value.decode("utf-8", "replace")
        elif field == b"retry" and 0 < len(value) < 10 and all(48 <= digit <= 57 for digit in value):
            retry = int(value)
    return found
