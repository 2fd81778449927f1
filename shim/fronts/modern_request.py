"""What a modern client's message is held to before any front serves it (VALIDATE), relayed or not."""

from aiohttp import web

from shim.config import Config
from shim.fronts.reply import Reply
from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.upstreams.base import Context
from shim.wire.envelope import ModernMeta, read_modern_meta
from shim.wire.errors import invalid_params, invalid_request, not_allowed
from shim.wire.headers import check_modern_headers
from shim.wire.http import PROTOCOL_VERSION
from shim.wire.jsonrpc import Message, Notification, Request, Response


def admitted(
    config: Config, http: web.BaseRequest, message: Message | None, ctx: Context, reply: Reply
) -> tuple[Request, ModernMeta] | None:
    """Give a checked request, what it says of itself noted; None for a notification. Raises ClientFault."""
    if message is None:
        raise not_allowed("POST")
    if isinstance(message, Notification):
        ctx.trace.method = message.method
        return None
    if isinstance(message, Response):
        raise invalid_request("a modern client sends no responses: answer by tasks/update or a retry")
    ctx.trace.method = message.method
    meta = read_modern_meta(message.params, http.headers.get(PROTOCOL_VERSION))
    missing_name = config.modern.missing_mcp_name
    for one in check_modern_headers(http.headers, message, meta.version, missing_name=missing_name):
        ctx.trace.lenient(one.rule, one.detail)
    ctx.client_name, ctx.client_version = meta.client_name, meta.client_version
    ctx.trace.client_name, ctx.trace.client_version = meta.client_name, meta.client_version
    ctx.kinds, ctx.capabilities = meta.kinds, meta.capabilities
    ctx.progress_token = meta.progress_token
    ctx.log_level = meta.log_level
    ctx.takes_tasks = meta.declares_tasks
    ctx.notify = reply.notify
    return message, meta


def task_id_of(params: Members) -> str:
    """Give the task that a request is about. Raises ClientFault."""
    task_id = rawjson.string(params.get("taskId"))
    if task_id is None:
        raise invalid_params("params.taskId: expected a string")
    return task_id


def responses_of(params: Members) -> Members:
    """Give a tasks/update's answers by key. Raises ClientFault."""
    raw = params.get("inputResponses")
    if raw is None:
        raise invalid_params("params.inputResponses: expected an object of answers by key")
    try:
        responses = rawjson.strict_members(raw)
        for answer in responses.values():
            rawjson.members(answer)
    except rawjson.RawJsonError as exc:
        raise invalid_params(f"params.inputResponses: {exc}") from exc
    return responses
