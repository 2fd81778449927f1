"""The modern envelope as a client of a modern server writes and reads it (LM-META, KEYS)."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from shim.hub import rawjson
from shim.hub.codec import CodecError, Lenient, Reading, read_question, read_task
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members
from shim.wire.envelope import (
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_SERVER_INFO,
    META_SUBSCRIPTION,
)
from shim.wire.era import META_VERSION, MODERN_VERSIONS
from shim.wire.errors import MISSING_CAPABILITY, TASKS_EXTENSION, UpstreamFault

META_OF_SERVER = frozenset((META_SERVER_INFO, META_SUBSCRIPTION))
"""What a modern server says of itself in `_meta`."""
_OF_THE_ENVELOPE = ("resultType", "ttlMs", "cacheScope", "inputRequests", "requestState")


def modern_params(
    params: Members,
    *,
    client_name: str,
    client_version: str,
    capabilities: Members,
    takes_tasks: bool,
    log_level: str | None,
    progress_token: bytes | None,
) -> Members:
    """Give a request's params with the `_meta` that a modern server wants; foreign keys of `_meta` stay.

    `capabilities` are those the client declared, raw; `takes_tasks` declares the extension, or not.
    """
    declared = _without_tasks(capabilities)
    if takes_tasks:
        extensions = rawjson.object_or_empty(declared.get("extensions"))
        declared["extensions"] = rawjson.join({**extensions, TASKS_EXTENSION: b"{}"})
    meta = {
        **rawjson.object_or_empty(params.get("_meta")),
        META_VERSION: rawjson.encode(MODERN_VERSIONS[0]),
        META_CLIENT_INFO: rawjson.encode({"name": client_name, "version": client_version}),
        META_CLIENT_CAPABILITIES: rawjson.join(declared),
    }
    if log_level is not None:
        meta[META_LOG_LEVEL] = rawjson.encode(log_level)
    if progress_token is not None:
        meta["progressToken"] = progress_token
    return {**params, "_meta": rawjson.join(meta)}


def undeclared(params: Members) -> Members:
    """Give a request's params without the tasks extension among the capabilities that it declares."""
    meta = rawjson.object_or_empty(params.get("_meta"))
    declared = _without_tasks(rawjson.object_or_empty(meta.get(META_CLIENT_CAPABILITIES)))
    return {**params, "_meta": rawjson.join({**meta, META_CLIENT_CAPABILITIES: rawjson.join(declared)})}


def wants_tasks(error: bytes | None) -> bool:
    """Tell whether a server refused a request because it did not declare the tasks extension."""
    if error is None or (TASKS_EXTENSION.encode() not in error and b"\\" not in error):
        return False
    if rawjson.members(error).get("code") != b"%d" % MISSING_CAPABILITY:
        return False
    return TASKS_EXTENSION.encode() in rawjson.encode(rawjson.decode(error))  # its slash may be escaped


def _without_tasks(capabilities: Members) -> Members:
    extensions = rawjson.object_or_empty(capabilities.get("extensions"))
    if extensions.pop(TASKS_EXTENSION, None) is None:
        return dict(capabilities)
    return {**capabilities, "extensions": rawjson.join(extensions)}


def has_tasks(discovered: Members) -> bool:
    """Tell whether a discover result offers the tasks extension."""
    capabilities = rawjson.object_or_empty(discovered.get("capabilities"))
    extensions = rawjson.object_or_empty(capabilities.get("extensions"))
    return extensions.get(TASKS_EXTENSION, b"")[:1] == b"{"


def with_tasks(discovered: Members) -> Members:
    """Give a discover result that offers the tasks extension; one that does stays as it came."""
    if has_tasks(discovered):
        return discovered
    capabilities = rawjson.object_or_empty(discovered.get("capabilities"))
    extensions = {**rawjson.object_or_empty(capabilities.get("extensions")), TASKS_EXTENSION: b"{}"}
    offered = rawjson.join({**capabilities, "extensions": rawjson.join(extensions)})
    return {**discovered, "capabilities": offered}


class MoreInput(msgspec.Struct, frozen=True):
    """A server's answer that asks before it goes on: questions by key, and the state to send back."""

    requests: Mapping[str, bytes]
    state: bytes | None
    lenient: tuple[Lenient, ...] = ()

    def retry(self, params: Members, responses: Members) -> Members:
        """Give the params of the call sent once more, with the answers and the state as it came."""
        state = {} if self.state is None else {"requestState": self.state}
        return {**params, "inputResponses": rawjson.join(responses), **state}


def more_input(result: bytes | None) -> MoreInput | None:
    """Read an `input_required` answer; None for any other. Raises UpstreamFault (LM-MRTR)."""
    members = rawjson.members(result) if result is not None else {}
    if rawjson.string(members.get("resultType")) != "input_required":
        return None
    requests = members.get("inputRequests", b"{}")
    if requests[:1] != b"{":
        raise UpstreamFault("the upstream's inputRequests are no object")
    lenient: list[Lenient] = []
    try:
        read = {key: read_question(raw, lenient) for key, raw in rawjson.members(requests).items()}
    except CodecError as exc:
        raise UpstreamFault(f"the upstream's inputRequests cannot be read: {exc}") from exc
    return MoreInput(read, members.get("requestState"), tuple(lenient))


def is_question(result: bytes | None) -> bool:
    """Tell whether a result asks before it goes on; one that does not is not read. Raises RawJsonError."""
    if result is None or (b"input_required" not in result and b"\\u00" not in result):
        return False  # any letter may be escaped
    return rawjson.string(rawjson.members(result).get("resultType")) == "input_required"


def read_shown(dialect: Dialect, members: Members) -> Reading:
    """Read a task as a modern server shows it, its result bare. Raises CodecError, TaskUnknownError."""
    reading = read_task(dialect, members)
    if reading.task.result is None:
        return reading
    return Reading(replace(reading.task, result=bare_result(reading.task.result)), reading.lenient)


def bare_result(result: bytes) -> bytes:
    """Take the modern envelope off a result: what is left is the payload of either era (LM-TOOLS, KEYS)."""
    members = rawjson.members(result)
    for key in _OF_THE_ENVELOPE:
        members.pop(key, None)
    meta = rawjson.object_or_empty(members.get("_meta"))
    if not META_OF_SERVER.isdisjoint(meta):
        if rest := {key: value for key, value in meta.items() if key not in META_OF_SERVER}:
            members["_meta"] = rawjson.join(rest)
        else:
            del members["_meta"]
    return rawjson.join(members)
