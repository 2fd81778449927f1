"""JSON-RPC messages with their payloads as raw slices.

Ids stay raw bytes, so `1` and `"1"` never meet. From a client a message is read strictly (VALIDATE), from
an upstream as it comes.
"""

import re

import msgspec

from shim.hub import rawjson
from shim.hub.memo import remembered
from shim.hub.rawjson import Members, RawJsonError
from shim.wire.errors import ClientFault, UpstreamFault, invalid_request, parse_error

_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_VERSION = b'"2.0"'
_NULL = b"null"
_OBJECT = b"{"
_ENVELOPE = frozenset(("jsonrpc", "id", "method", "params", "result", "error"))
_PARAMS = frozenset((
    "_meta", "name", "arguments", "uri", "cursor", "method", "params",
    "task", "taskId", "ttl", "inputResponses", "requestState", "notifications",
))  # fmt: skip
"""What the shim reads: a server that overlooks case must not read more than it did."""
_strict_meta = remembered(rawjson.strict_members)
_SPELLING = {key.lower(): key for key in _ENVELOPE | _PARAMS}


class Request(msgspec.Struct, frozen=True):
    """A message that wants an answer."""

    id: bytes
    method: str
    params: Members


class Notification(msgspec.Struct, frozen=True):
    """A message that wants none."""

    method: str
    params: Members


class Response(msgspec.Struct, frozen=True):
    """An answer: `result` or `error`, raw; the id is None where the sender could not tell it."""

    id: bytes | None
    result: bytes | None
    error: bytes | None


Message = Request | Notification | Response


def read_client(body: bytes) -> Message:
    """Read a client's message. Raises ClientFault with HTTP 400."""
    try:
        envelope = rawjson.strict_members(body)
        _refuse_variants(envelope, _ENVELOPE)
        params = envelope.get("params")
        members: Members = {} if params is None else rawjson.strict_members(params)
        _refuse_variants(members, _PARAMS)
        meta = members.get("_meta")
        if meta is not None and meta[:1] == _OBJECT:
            _strict_meta(meta)
    except RawJsonError as exc:
        raise _refused(exc, body) from exc
    if envelope.get("jsonrpc") != _VERSION:
        raise invalid_request('jsonrpc: expected "2.0"')
    message_id = envelope.get("id")
    if message_id is not None and not _is_id(message_id):
        raise invalid_request("id: expected a string or an integer")
    if "method" in envelope:
        method = rawjson.string(envelope["method"])
        if method is None:
            raise invalid_request("method: expected a string")
        return Notification(method, members) if message_id is None else Request(message_id, method, members)
    result, error = envelope.get("result"), envelope.get("error")
    if message_id is None or (result is None) == (error is None):
        raise invalid_request("expected a request, a notification or a response")
    if (result or error or b"")[:1] != _OBJECT:
        raise invalid_request("result, error: expected an object")
    return Response(message_id, result, error)


def read_upstream(data: bytes) -> Message:
    """Read an upstream's message. Raises UpstreamFault."""
    try:
        envelope = rawjson.members(data)
        params = envelope.get("params")
        members = {} if params is None or params == _NULL else rawjson.members(params)
        if "method" in envelope:
            method = rawjson.string(envelope["method"]) or ""
            message_id = envelope.get("id")
            if message_id is None or message_id == _NULL:
                return Notification(method, members)
            return Request(message_id, method, members)
    except RawJsonError as exc:
        raise UpstreamFault(f"the upstream sent no JSON-RPC message: {exc}") from exc
    result, error = envelope.get("result"), envelope.get("error")
    if (result is None) == (error is None):
        raise UpstreamFault("the upstream sent a message that is neither answer nor request")
    if (result or error or b"")[:1] != _OBJECT:
        raise UpstreamFault("the upstream sent a result or error that is no object")
    message_id = envelope.get("id")
    return Response(None if message_id == _NULL else message_id, result, error)


def write_request(message_id: bytes, method: str, params: Members | None) -> bytes:
    """Build a request."""
    head = b'{"jsonrpc":"2.0","id":' + message_id + b',"method":' + rawjson.encode(method)
    return head + b"}" if params is None else head + b',"params":' + rawjson.join(params) + b"}"


def write_notification(method: str, params: Members | None) -> bytes:
    """Build a notification."""
    head = b'{"jsonrpc":"2.0","method":' + rawjson.encode(method)
    return head + b',"params":' + rawjson.join(params) + b"}" if params else head + b"}"


def write_result(message_id: bytes, result: bytes) -> bytes:
    """Build a successful answer."""
    return b'{"jsonrpc":"2.0","id":' + message_id + b',"result":' + result + b"}"


def write_error(message_id: bytes | None, code: int, message: str, data: bytes | None = None) -> bytes:
    """Build an error answer; without an id where none could be read."""
    error = {"code": rawjson.encode(code), "message": rawjson.encode(message)}
    if data is not None:
        error["data"] = data
    head = b'{"jsonrpc":"2.0",' if message_id is None else b'{"jsonrpc":"2.0","id":' + message_id + b","
    return head + b'"error":' + rawjson.join(error) + b"}"


def write_message(message: Message) -> bytes:
    """Build a message from its parts."""
    if isinstance(message, Request):
        return write_request(message.id, message.method, message.params or None)
    if isinstance(message, Notification):
        return write_notification(message.method, message.params)
    if message.result is not None:
        return write_result(message.id or _NULL, message.result)
    return b'{"jsonrpc":"2.0","id":' + (message.id or _NULL) + b',"error":' + (message.error or b"{}") + b"}"


def _refuse_variants(found: Members, known: frozenset[str]) -> None:
    if found.keys() <= known:
        return
    for key in found:
        spelling = _SPELLING.get(key.casefold(), key)
        if spelling != key and spelling in known:
            raise RawJsonError("duplicate", f"the key {key!r} is written in another case", key)


def _is_id(raw: bytes) -> bool:
    return raw[:1] == b'"' or _INTEGER.fullmatch(raw) is not None


def _refused(exc: RawJsonError, body: bytes) -> ClientFault:
    if exc.fault == "not_object":
        if body.lstrip()[:1] == b"[":
            return invalid_request("body: batches are not served; send one message a request")
        return invalid_request("body, params: expected an object")
    if exc.fault in {"duplicate", "too_wide"}:
        return invalid_request(f"body: {exc}")
    return parse_error(str(exc))


def is_error(answer: bytes) -> bool:
    """Tell a JSON-RPC error from a result, without reading a large answer twice."""
    if b'"error"' not in answer and b"\\u00" not in answer:
        return False  # any letter may be escaped
    try:
        return "error" in rawjson.members(answer)
    except RawJsonError:
        return False
