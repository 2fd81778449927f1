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

Fault = Literal["syntax", "not_object", "too_deep", "duplicate", "utf8"]


class RawJsonError(ValueError):
    """The bytes are no acceptable JSON object; `fault` says how, `key` which member if one is to blame."""

    def __init__(self, fault: Fault, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.fault: Fault = fault
        self.key = key


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode

_WS = re.compile(rb"[ \t\n\r]*")
_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')


def members(data: bytes) -> Members:
    """Split an object into raw members; of repeated keys the last one wins. Raises RawJsonError."""
    try:
        return {key: bytes(value) for key, value in _members.decode(data).items()}
    except msgspec.ValidationError as exc:
        raise RawJsonError("not_object", "expected a JSON object") from exc
    except RecursionError as exc:
        raise RawJsonError("too_deep", "the JSON is nested too deeply") from exc
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _slow_members(data)


def strict_members(data: bytes) -> Members:
    """Split an object and refuse keys that repeat or differ only in case (VALIDATE). Raises RawJsonError.

    The walk compares slices in place instead of parsing again: a repeated key is the only way that the
    n-th value of the text is not the n-th value of the decoded object.
    """
    found = members(data)
    if len({key.lower() for key in found}) != len(found):
        seen: set[str] = set()
        for key in found:
            if key.lower() in seen:
                raise RawJsonError("duplicate", f"the key {key!r} stands twice in different case", key)
            seen.add(key.lower())
    at = _skip(data, 0) + 1
    for key, value in found.items():
        token = _STRING.match(data, _skip(data, at))
        if token is None or not _same_key(token.group(), key):
            _refuse_duplicate(data, at)
        at = _skip(data, _skip(data, token.end()) + 1)
        if not data.startswith(value, at):
            raise RawJsonError("duplicate", f"the key {key!r} stands twice", key)
        at = _skip(data, at + len(value))
        if data[at : at + 1] == b",":
            at += 1
    if data[at : at + 1] != b"}":
        _refuse_duplicate(data, at)
    return found


def join(parts: Mapping[str, bytes]) -> bytes:
    """Build an object from raw members, byte for byte as they are."""
    return b"{" + b",".join(_encode_key(key) + b":" + value for key, value in parts.items()) + b"}"


def encode(value: Any) -> bytes:
    """Encode a plain Python value as compact JSON."""
    return _encode(value)


def decode(data: bytes) -> Any:
    """Decode a small envelope value; numbers beyond 64 bits keep their value. Raises RawJsonError."""
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except RecursionError as exc:
        raise RawJsonError("too_deep", "the JSON is nested too deeply") from exc
    except ValueError as exc:
        raise RawJsonError("syntax", f"not JSON: {exc}") from exc


def string(data: bytes | None) -> str | None:
    """Give the string in a raw value, or None when it is absent or no string."""
    if data is None or data[:1] != b'"':
        return None
    value = decode(data)
    return value if isinstance(value, str) else None


def _encode_key(key: str) -> bytes:
    try:
        return _encode(key)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(key).encode()


def _same_key(token: bytes, key: str) -> bool:
    inner = token[1:-1]
    if b"\\" not in inner:
        return inner == key.encode("utf-8", "surrogatepass")
    return bool(json.loads(token) == key)


def _skip(data: bytes, at: int) -> int:
    match = _WS.match(data, at)
    return match.end() if match else at


def _refuse_duplicate(data: bytes, at: int) -> NoReturn:
    token = _STRING.match(data, _skip(data, at))
    key = json.loads(token.group()) if token else ""
    raise RawJsonError("duplicate", f"the key {key!r} stands twice", key)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_scanner = json.JSONDecoder(parse_constant=_refuse_constant)


def _slow_members(data: bytes) -> Members:
    """Split an object with the standard library, for input msgspec refuses."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise RawJsonError("utf8", "the body is not UTF-8") from exc
    try:
        value = _scanner.decode(text)
        if not isinstance(value, dict):
            raise RawJsonError("not_object", "expected a JSON object")
        return _slices(text)
    except RecursionError as exc:
        raise RawJsonError("too_deep", "the JSON is nested too deeply") from exc
    except RawJsonError:
        raise
    except ValueError as exc:
        raise RawJsonError("syntax", f"not JSON: {exc}") from exc


def _slices(text: str) -> Members:
    """Cut the members out of a text that is known to be one valid object."""
    found: Members = {}
    at = _text_skip(text, _text_skip(text, 0) + 1)
    while text[at] != "}":
        key, at = _scanner.raw_decode(text, at)
        at = _text_skip(text, _text_skip(text, at) + 1)
        _, end = _scanner.raw_decode(text, at)
        found[key] = text[at:end].encode()
        at = _text_skip(text, end)
        if text[at] == ",":
            at = _text_skip(text, at + 1)
    return found


_TEXT_WS = re.compile(r"[ \t\n\r]*")


def _text_skip(text: str, at: int) -> int:
    match = _TEXT_WS.match(text, at)
    return match.end() if match else at
