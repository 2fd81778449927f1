"""JSON objects as raw slices: look at the envelope, leave every payload as it came (HUB-5).

msgspec finds the slices; what it refuses although JSON allows it (a lone surrogate in a string)
takes the slow path through the standard library's scanner. Values never become Python objects here.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import msgspec

Members = dict[str, bytes]
"""An object's members: decoded key -> the value's raw JSON bytes, in the order they came."""

Fault = Literal["syntax", "not_object", "too_deep", "too_wide", "duplicate", "utf8"]

MOST_MEMBERS = 10_000
"""What an object that is taken apart may have: each member costs fifty times its bytes. Payloads are not."""


class RawJsonError(ValueError):
    """The bytes are no acceptable JSON object; `fault` says how, `key` which member if one is to blame."""

    def __init__(self, fault: Fault, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.fault: Fault = fault
        self.key = key


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode

_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_OPEN = re.compile(rb"[ \t\n\r]*\{[ \t\n\r]*")
_KEY = re.compile(rb"[ \t\n\r]*(" + _STRING + rb")[ \t\n\r]*:[ \t\n\r]*")
_NEXT = re.compile(rb"[ \t\n\r]*,?[ \t\n\r]*")


def members(data: bytes) -> Members:
    """Split an object into raw members; of repeated keys the last one wins. Raises RawJsonError."""
    _require_utf8(data)  # msgspec does not look into the strings it skips
    try:
        found = _members.decode(data)
    except msgspec.ValidationError as exc:
        raise RawJsonError("not_object", "expected a JSON object") from exc
    except RecursionError as exc:
        raise RawJsonError("too_deep", "the JSON is nested too deeply") from exc
    except msgspec.DecodeError:
        return _slow_members(data)
    _refuse_wide(found)
    return {key: bytes(value) for key, value in found.items()}


def strict_members(data: bytes) -> Members:
    """Split an object and refuse keys that repeat or differ only in case (VALIDATE). Raises RawJsonError.

    The walk compares slices in place instead of parsing again: a repeated key is the only way that the
    n-th value of the text is not the n-th value of the decoded object.
    """
    found = members(data)
    if len(set(map(str.lower, found))) != len(found):
        seen: set[str] = set()
        for key in found:
            if key.lower() in seen:
                raise RawJsonError("duplicate", f"the key {key!r} stands twice in different case", key)
            seen.add(key.lower())
    # a compact text is exactly as long as its distinct members: nothing stands twice
    compact = sum(map(len, found)) + sum(map(len, found.values())) + 4 * len(found) + 1
    if compact == len(data) and data.isascii():
        return found
    at = _OPEN.match(data).end()  # type: ignore[union-attr]  # it is an object, see above
    for key, value in found.items():
        token = _KEY.match(data, at)
        if token is None or not _same_key(token[1], key):
            _refuse_duplicate(data, at)
        at = token.end()
        if not data.startswith(value, at):
            raise RawJsonError("duplicate", f"the key {key!r} stands twice", key)
        at = _NEXT.match(data, at + len(value)).end()  # type: ignore[union-attr]  # it matches nothing, too
    if data[at : at + 1] != b"}":
        _refuse_duplicate(data, at)
    return found


def items(data: bytes) -> list[bytes]:
    """Split a list into raw values. Raises RawJsonError."""
    _require_utf8(data)
    try:
        return [bytes(item) for item in _items.decode(data)]
    except msgspec.ValidationError as exc:
        raise RawJsonError("not_object", "expected a JSON list") from exc
    except RecursionError as exc:
        raise RawJsonError("too_deep", "the JSON is nested too deeply") from exc
    except msgspec.DecodeError:
        return _slow_items(data)


def join(parts: Mapping[str, bytes]) -> bytes:
    """Build an object from raw members, byte for byte as they are."""
    return b"{" + b",".join([encode(key) + b":" + value for key, value in parts.items()]) + b"}"


def encode(value: Any) -> bytes:
    """Encode a plain Python value as compact JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, separators=(",", ":")).encode()


def decode(data: bytes) -> Any:
    """Decode a small envelope value; integers keep their value up to 4,300 digits. Raises RawJsonError."""
    _require_utf8(data)
    try:
        return _scanner.decode(data.decode())
    except RecursionError as exc:
        raise RawJsonError("too_deep", "the JSON is nested too deeply") from exc
    except ValueError as exc:
        raise RawJsonError("syntax", f"not JSON: {exc}") from exc


def object_or_empty(data: bytes | None) -> Members:
    """Give an object's members; what is absent or no object has none. Raises RawJsonError."""
    return members(data) if data is not None and data[:1] == b"{" else {}


def string(data: bytes | None) -> str | None:
    """Give the string in a raw value, or None when it is absent or no string."""
    if data is None or data[:1] != b'"':
        return None
    if data.isascii() and b"\\" not in data:
        return data[1:-1].decode()  # nothing to unescape
    value = decode(data)
    return value if isinstance(value, str) else None


def _require_utf8(data: bytes) -> None:
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as exc:
        raise RawJsonError("utf8", "the JSON is not UTF-8") from exc


def _refuse_wide(found: Mapping[str, object]) -> None:
    if len(found) > MOST_MEMBERS:
        raise RawJsonError("too_wide", f"an object has more than {MOST_MEMBERS} members")


def _same_key(token: bytes, key: str) -> bool:
    inner = token[1:-1]
    if b"\\" not in inner:
        return inner == key.encode("utf-8", "surrogatepass")
    return bool(json.loads(token) == key)


def _refuse_duplicate(data: bytes, at: int) -> NoReturn:
    token = _KEY.match(data, at)
    key = json.loads(token[1]) if token else ""
    raise RawJsonError("duplicate", f"the key {key!r} stands twice", key)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python takes
        return float(digits)


_scanner = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_integer)
_quick = json.JSONDecoder(parse_constant=_refuse_constant)
"""Makes integers by itself, which is much of the time, and refuses long ones."""


def _slow_members(data: bytes) -> Members:
    """Split an object with the standard library, for input msgspec refuses; in one pass, as it is slow."""
    text = data.decode()
    at = _text_skip(text, 0)
    if text[at : at + 1] != "{":
        decode(data)
        raise RawJsonError("not_object", "expected a JSON object")
    try:
        return _slices(text, _text_skip(text, at + 1))
    except RecursionError as exc:
        raise RawJsonError("too_deep", "the JSON is nested too deeply") from exc
    except json.JSONDecodeError as exc:
        raise RawJsonError("syntax", f"not JSON: {exc}") from exc


def _slices(text: str, at: int) -> Members:
    """Cut the members out of an object that began just before. Raises JSONDecodeError, RawJsonError."""
    found: Members = {}
    more = text[at : at + 1] != "}"
    while more:
        _expect(text, at, '"')
        key, at = _scanner.raw_decode(text, at)
        at = _text_skip(text, at)
        _expect(text, at, ":")
        at = _text_skip(text, at + 1)
        end = _end_of(text, at)
        found[key] = text[at:end].encode()
        _refuse_wide(found)
        at = _text_skip(text, end)
        more = text[at : at + 1] == ","
        at = _text_skip(text, at + 1) if more else at
    _expect(text, at, "}")
    _expect(text, _text_skip(text, at + 1), "")
    return found


def _expect(text: str, at: int, sign: str) -> None:
    """See that a sign stands in a place, or nothing. Raises JSONDecodeError."""
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"Expecting {sign!r}" if sign else "Extra data", text, at)


def _end_of(text: str, at: int) -> int:
    """Find the end of a value. Raises JSONDecodeError."""
    try:
        return _quick.raw_decode(text, at)[1]
    except json.JSONDecodeError:
        raise
    except ValueError:  # more digits than Python takes, or a constant that is not JSON
        pass
    try:
        return _scanner.raw_decode(text, at)[1]
    except json.JSONDecodeError:
        raise
    except ValueError as exc:
        raise json.JSONDecodeError(str(exc), text, at) from exc


def _slow_items(data: bytes) -> list[bytes]:
    """Split a list with the standard library, for input msgspec refuses."""
    if not isinstance(decode(data), list):
        raise RawJsonError("not_object", "expected a JSON list")
    text, found = data.decode(), list[bytes]()
    at = _text_skip(text, _text_skip(text, 0) + 1)
    while text[at] != "]":
        _, end = _scanner.raw_decode(text, at)
        found.append(text[at:end].encode())
        at = _text_skip(text, end)
        if text[at] == ",":
            at = _text_skip(text, at + 1)
    return found


_TEXT_WS = re.compile(r"[ \t\n\r]*")


def _text_skip(text: str, at: int) -> int:
    match = _TEXT_WS.match(text, at)
    return match.end() if match else at
