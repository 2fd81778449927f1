"""The legacy envelope as the server of a legacy client writes it, for what a modern server said (LM)."""

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.wire.envelope import META_SERVER_INFO, RELATED_TASK
from shim.wire.era import LEGACY_VERSIONS, knows_tasks
from shim.wire.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND
from shim.wire.jsonrpc import Response
from shim.wire.modern import META_OF_SERVER, bare_result

_TASKS = b'{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}'
_OBJECT = b"{"
_OF_THE_CLIENT = ("task", "inputResponses", "requestState")


def initialize_result(discovered: Members, asked: str | None, *, name: str, tasks: bool) -> bytes:
    """Make an initialize result of a discover result (LM-INIT).

    `asked` is the version the client wants; `name` stands for a server that gives none; `tasks` says
    whether the experimental tasks are offered, to a client of a version that has them.
    """
    version = asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[0]
    capabilities = rawjson.object_or_empty(discovered.get("capabilities"))
    for key in ("extensions", "tasks"):
        capabilities.pop(key, None)
    if tasks and knows_tasks(version):
        capabilities["tasks"] = _TASKS
    info = rawjson.object_or_empty(discovered.get("_meta")).get(META_SERVER_INFO)
    result: Members = {
        "protocolVersion": rawjson.encode(version),
        "capabilities": rawjson.join(capabilities),
        "serverInfo": info or rawjson.encode({"name": name, "version": "0"}),
    }
    if "instructions" in discovered:
        result["instructions"] = discovered["instructions"]
    return rawjson.join(result)


def upstream_params(params: Members) -> tuple[Members, bytes | None]:
    """Give a legacy client's params without what belongs to its era, and its progress token."""
    kept = {key: value for key, value in params.items() if key not in _OF_THE_CLIENT}
    meta = rawjson.object_or_empty(kept.pop("_meta", None))
    token = meta.pop("progressToken", None)
    foreign = {
        key: value
        for key, value in meta.items()
        if key != RELATED_TASK and not key.startswith("io.modelcontextprotocol/")
    }
    if foreign:
        kept["_meta"] = rawjson.join(foreign)
    return kept, token


def legacy_result(result: bytes) -> tuple[bytes, str | None]:
    """Give a modern server's result as legacy clients know it, and the field that had to go (LM-LOCAL)."""
    bare = bare_result(result)
    if b"structuredContent" not in bare:
        return bare, None
    members = rawjson.members(bare)
    content = members.get("structuredContent")
    if content is None or content[:1] == _OBJECT:
        return bare, None
    del members["structuredContent"]
    return rawjson.join(members), "structuredContent"


def legacy_notice(params: Members) -> Members:
    """Give the params of a modern server's notification as legacy clients know them (KEYS)."""
    meta = rawjson.object_or_empty(params.get("_meta"))
    if META_OF_SERVER.isdisjoint(meta):
        return params
    meta = {key: value for key, value in meta.items() if key not in META_OF_SERVER}
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "_meta": rawjson.join(meta)} if meta else rest


def missing_resource(response: Response, method: str) -> Response:
    """Give a modern server's error to a legacy client: a missing resource has a code of its own there."""
    error = rawjson.members(response.error or b"{}")
    missing = (
        method == "resources/read"
        and error.get("code") == rawjson.encode(INVALID_PARAMS)
        and "uri" in rawjson.object_or_empty(error.get("data"))
    )
    if not missing:
        return response
    error["code"] = rawjson.encode(RESOURCE_NOT_FOUND)
    return Response(response.id, None, rawjson.join(error))
