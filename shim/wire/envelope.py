"""The keys around the payloads: one era's are taken off, the other's put on (KEYS).

Everything here works on raw members; a payload's own keys are never looked at.
"""

from collections.abc import Mapping

import msgspec

from shim.hub import rawjson
from shim.hub.memo import remembered
from shim.hub.rawjson import Members, RawJsonError
from shim.wire.era import META_VERSION, MODERN_VERSIONS
from shim.wire.errors import (
    HEADER_MISMATCH,
    INTERNAL,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    TASKS_EXTENSION,
    UNSUPPORTED_VERSION,
    URL_ELICITATION,
    ClientFault,
    header_mismatch,
    invalid_params,
    unsupported_version,
)
from shim.wire.tool_lists import without_support

META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK = "io.modelcontextprotocol/related-task"

MODERN_ONLY_KEYS = frozenset((
    "resultType", "ttlMs", "pollIntervalMs", "cacheScope", "inputRequests", "inputResponses", "requestState",
    META_SERVER_INFO, META_SUBSCRIPTION, META_VERSION, META_CLIENT_INFO, META_CLIENT_CAPABILITIES,
    META_LOG_LEVEL,
))  # fmt: skip
LEGACY_ONLY_KEYS = frozenset(("task", "ttl", "pollInterval", RELATED_TASK, "execution"))

KINDS = ("elicitation", "sampling", "roots")
"""What a client can declare that it may be asked."""

_CACHEABLE = frozenset((
    "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
    "resources/read",
))  # fmt: skip
_ENVELOPE_META = frozenset((
    META_VERSION, META_CLIENT_INFO, META_CLIENT_CAPABILITIES, META_LOG_LEVEL, META_SERVER_INFO,
    META_SUBSCRIPTION, RELATED_TASK, "progressToken",
))  # fmt: skip
_MODERN_PARAMS = frozenset(("_meta", "task", "inputResponses", "requestState"))
_COMPLETE = b'"complete"'
_NO_CACHE = {"ttlMs": b"0", "cacheScope": b'"private"'}
_OBJECT = b"{"
_MODERN_CODES = {RESOURCE_NOT_FOUND: INVALID_PARAMS, URL_ELICITATION: INTERNAL}
"""What stands in the modern era for a code of the old one that has none there."""
_LEGACY_CODES = dict.fromkeys((HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION), INTERNAL)
"""And in the old era for one of the modern: what its client cannot have done wrong."""


class ModernMeta(msgspec.Struct, frozen=True):
    """What a modern request says of itself in `_meta`."""

    version: str
    client_name: str
    client_version: str
    kinds: frozenset[str]
    capabilities: Members
    """The declared values of those kinds, raw."""
    declared: Members
    """Everything that was declared, raw."""
    declares_tasks: bool
    log_level: str | None
    progress_token: bytes | None
    foreign: Members
    """The keys that are not the envelope's."""


def read_modern_meta(params: Members, stated: str | None = None) -> ModernMeta:
    """Read a modern request's `_meta`; `stated` is its version header. Raises ClientFault, HTTP 400.

    A header that the body contradicts comes before what the body's version is worth (VALIDATE).
    """
    try:
        return _read_meta(params.get("_meta", b"{}"))
    except ClientFault as fault:
        if fault.code == UNSUPPORTED_VERSION and stated in MODERN_VERSIONS:
            raise header_mismatch(f"MCP-Protocol-Version is {stated}, but _meta says another") from None
        raise


@remembered
def _read_meta(raw: bytes) -> ModernMeta:
    try:
        meta = rawjson.members(raw)
        version = rawjson.string(meta.get(META_VERSION))
        if version is None:
            raise invalid_params(f"params._meta[{META_VERSION!r}]: required")
        if version not in MODERN_VERSIONS:
            raise unsupported_version(version, MODERN_VERSIONS)
        declared = meta.get(META_CLIENT_CAPABILITIES)
        if declared is None or declared[:1] != _OBJECT:
            raise invalid_params(f"params._meta[{META_CLIENT_CAPABILITIES!r}]: required, an object")
        capabilities = rawjson.members(declared)
        info = rawjson.object_or_empty(meta.get(META_CLIENT_INFO))
        extensions = rawjson.object_or_empty(capabilities.get("extensions"))
    except RawJsonError as exc:
        raise invalid_params(f"params._meta: {exc}") from exc
    kinds = {kind: capabilities[kind] for kind in KINDS if _declared(capabilities.get(kind))}
    return ModernMeta(
        version=version,
        client_name=rawjson.string(info.get("name")) or "unknown",
        client_version=rawjson.string(info.get("version")) or "0",
        kinds=frozenset(kinds),
        capabilities=kinds,
        declared=capabilities,
        declares_tasks=_declared(extensions.get(TASKS_EXTENSION)),
        log_level=_level(meta.get(META_LOG_LEVEL)),
        progress_token=meta.get("progressToken"),
        foreign={key: value for key, value in meta.items() if key not in _ENVELOPE_META},
    )


def legacy_params(params: Members, meta: ModernMeta) -> Members:
    """Give a modern request's params for a legacy server: payload and foreign `_meta` only."""
    kept = {key: value for key, value in params.items() if key not in _MODERN_PARAMS}
    if meta.foreign:
        kept["_meta"] = rawjson.join(meta.foreign)
    return kept


def with_progress_token(params: Members, token: bytes) -> Members:
    """Give params that ask for progress under a token."""
    meta = rawjson.object_or_empty(params.get("_meta"))
    return {**params, "_meta": rawjson.join({**meta, "progressToken": token})}


def modern_result(result: bytes, *, method: str, server_info: bytes | None) -> bytes:
    """Put the modern envelope around a legacy server's result (ML-TOOLS, KEYS)."""
    members = rawjson.members(strip_related_task(result))
    for key in ("resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"):
        members.pop(key, None)
    if method == "tools/list" and "tools" in members:
        members["tools"] = without_support(members["tools"])
    if server_info is not None:
        meta = rawjson.object_or_empty(members.get("_meta"))
        members["_meta"] = rawjson.join({**meta, META_SERVER_INFO: server_info})
    cache = _NO_CACHE if method in _CACHEABLE else {}
    return rawjson.join({"resultType": _COMPLETE, **members, **cache})


def discover_result(init: Members, *, has_tasks: bool) -> bytes:
    """Make a discover result of a legacy server's initialize result (ML-DISCOVER)."""
    capabilities = rawjson.object_or_empty(init.get("capabilities"))
    capabilities.pop("tasks", None)
    if has_tasks:
        extensions = rawjson.object_or_empty(capabilities.get("extensions"))
        capabilities["extensions"] = rawjson.join({**extensions, TASKS_EXTENSION: b"{}"})
    result: Members = {
        "resultType": _COMPLETE,
        "supportedVersions": rawjson.encode(MODERN_VERSIONS),
        "capabilities": rawjson.join(capabilities),
    }
    if "instructions" in init:
        result["instructions"] = init["instructions"]
    if "serverInfo" in init:
        result["_meta"] = rawjson.join({META_SERVER_INFO: init["serverInfo"]})
    return rawjson.join({**result, **_NO_CACHE})


def modern_error(error: bytes) -> tuple[int, str, bytes | None]:
    """Give an upstream's error as modern clients know it: code, message, data (ERRORS)."""
    return _as_known(error, _MODERN_CODES)


def legacy_error(error: bytes) -> tuple[int, str, bytes | None]:
    """Give an upstream's error as legacy clients know it: code, message, data (KEYS)."""
    return _as_known(error, _LEGACY_CODES)


def _as_known(error: bytes, codes: Mapping[int, int]) -> tuple[int, str, bytes | None]:
    members = rawjson.members(error)
    raw_code = rawjson.decode(members.get("code", b"null"))
    code = raw_code if isinstance(raw_code, int) and not isinstance(raw_code, bool) else INTERNAL
    message = rawjson.string(members.get("message")) or ""
    return codes.get(code, code), message, members.get("data")


def recoded(error: bytes) -> bytes:
    """Give a task's error as modern clients know it; what it carries stays as it came (ERRORS)."""
    members = rawjson.members(error)
    code = modern_error(error)[0]
    if code not in _MODERN_CODES.values():
        return error
    return rawjson.join({**members, "code": rawjson.encode(code)})


def strip_related_task(result: bytes) -> bytes:
    """Take only the related-task key off a result or params object."""
    if b"related-task" not in result and b"\\u" not in result:
        return result  # the key's slash may be escaped, and any letter of it
    members = rawjson.members(result)
    meta = rawjson.object_or_empty(members.get("_meta"))
    if meta.pop(RELATED_TASK, None) is None:
        return result
    if meta:
        members["_meta"] = rawjson.join(meta)
    else:
        del members["_meta"]
    return rawjson.join(members)


def without_related_task(params: Members) -> Members:
    """Give a notification's params without the related-task key."""
    meta = rawjson.object_or_empty(params.get("_meta"))
    if meta.pop(RELATED_TASK, None) is None:
        return params
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "_meta": rawjson.join(meta)} if meta else rest


def with_related_task(result: bytes, task_id: str) -> bytes:
    """Name the task in a result's `_meta`."""
    members = rawjson.members(result)
    related = rawjson.encode({"taskId": task_id})
    members["_meta"] = rawjson.join({**rawjson.object_or_empty(members.get("_meta")), RELATED_TASK: related})
    return rawjson.join(members)


def related_task_of(params: Members) -> str | None:
    """Give the task that params name in `_meta`."""
    meta = rawjson.object_or_empty(params.get("_meta"))
    return rawjson.string(rawjson.object_or_empty(meta.get(RELATED_TASK)).get("taskId"))


def declared_kinds(capabilities: bytes | None) -> Members:
    """Give the kinds of questions that capabilities declare, with their raw values."""
    declared = rawjson.object_or_empty(capabilities)
    return {kind: declared[kind] for kind in KINDS if _declared(declared.get(kind))}


def initialize_params(name: str, version: str, capabilities: Members, protocol: str) -> Members:
    """Build an initialize for an upstream session: that client's name and kinds, never tasks."""
    return {
        "protocolVersion": rawjson.encode(protocol),
        "capabilities": rawjson.join(capabilities),
        "clientInfo": rawjson.encode({"name": name, "version": version}),
    }


def fit_capabilities(init: bytes, *, tasks: bool) -> bytes:
    """Make an initialize result fit a client of another legacy dialect (LL-1)."""
    members = rawjson.members(init)
    capabilities = rawjson.object_or_empty(members.get("capabilities"))
    capabilities.pop("tasks", None)
    if tasks:
        capabilities["tasks"] = b'{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}'
    members["capabilities"] = rawjson.join(capabilities)
    return rawjson.join(members)


def offers_task_calls(init: bytes) -> bool:
    """Tell whether an initialize result offers tools/call as tasks."""
    capabilities = rawjson.decode(rawjson.members(init).get("capabilities", b"{}"))
    for key in ("tasks", "requests", "tools", "call"):
        if not isinstance(capabilities, dict) or capabilities.get(key) is None:
            return False
        capabilities = capabilities[key]
    return True


def _level(raw: bytes | None) -> str | None:
    """Read a log level; what is no string is no level that anyone knows."""
    return None if raw is None else rawjson.string(raw) or ""


def _declared(raw: bytes | None) -> bool:
    return raw is not None and raw[:1] == _OBJECT
