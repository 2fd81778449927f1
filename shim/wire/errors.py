"""What can go wrong, in three families: the client's fault, the upstream's, and our own.

Every error knows how it is answered. Its message is one line that names the fault, the place and the mend.
"""

from collections.abc import Mapping
from typing import Any

from shim.hub import rawjson

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002
URL_ELICITATION = -32042

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
_TASKS: Mapping[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}


class ShimError(Exception):
    """An error that is an answer: JSON-RPC code and message, optional raw `data`.

    `http_status` is that of HTTP's own reasons; None where the code decides (`shim.wire.statuses`).
    """

    def __init__(
        self,
        code: int,
        message: str,
        http_status: int | None = None,
        *,
        data: bytes | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        reason: str | None = None,
        limit: str | None = None,
        recorded: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_status = http_status
        self.data = data
        self.headers = headers
        self.reason = reason
        """What the audit log calls a denial, if it is one."""
        self.limit = limit
        """The key of the config whose bound is reached, if that is why."""
        self.recorded = recorded or message
        """What the logs say of it: nothing that a peer wrote."""

    def error_object(self) -> bytes:
        """Give the JSON-RPC error object, raw."""
        members = {"code": rawjson.encode(self.code), "message": rawjson.encode(self.message)}
        if self.data is not None:
            members["data"] = self.data
        return rawjson.join(members)


class ClientFault(ShimError):
    """The client's message breaks a rule."""


class UpstreamFault(ShimError):
    """The upstream cannot be reached or breaks a rule; a task is never lost by it.

    To the client it is an internal error, from a gateway unless another `http_status` is given.
    """

    def __init__(
        self,
        message: str,
        http_status: int | None = 502,
        *,
        data: bytes | None = None,
        limit: str | None = None,
        recorded: str | None = None,
    ) -> None:
        super().__init__(INTERNAL, message, http_status, data=data, limit=limit, recorded=recorded)


class OwnFault(ShimError):
    """The shim itself failed."""


def parse_error(detail: str) -> ClientFault:
    """Refuse a body that is not JSON."""
    return ClientFault(PARSE_ERROR, f"body: {detail}")


def invalid_request(detail: str) -> ClientFault:
    """Refuse a body that is no JSON-RPC message this endpoint takes."""
    return ClientFault(INVALID_REQUEST, detail)


def method_not_found(method: str) -> ClientFault:
    """Refuse a method that the era or dialect does not have."""
    return ClientFault(METHOD_NOT_FOUND, f"Method not found: {method}")


def invalid_params(detail: str, *, limit: str | None = None) -> ClientFault:
    """Refuse a parameter; `limit` names the bound that it is beyond, if one."""
    return ClientFault(INVALID_PARAMS, detail, limit=limit)


def unknown_task() -> ClientFault:
    """Answer for a task that is not there and for one that is someone else's: the same bytes (OWN-CHECK)."""
    return ClientFault(INVALID_PARAMS, "Failed to retrieve task: Task not found")


def task_expired() -> ClientFault:
    """Answer the owner of a task whose time is over (DUR-4)."""
    return ClientFault(INVALID_PARAMS, "Failed to retrieve task: Task has expired")


def cancel_of_ended(status: str) -> ClientFault:
    """Refuse to cancel a task that has ended, where the dialect refuses."""
    return ClientFault(INVALID_PARAMS, f"Cannot cancel task: already in terminal status '{status}'")


def unknown_session() -> ClientFault:
    """Answer for a session that is not there and for one that is someone else's (LL-OWN)."""
    return ClientFault(INVALID_REQUEST, "Session not found", 404)


def header_mismatch(detail: str) -> ClientFault:
    """Refuse headers that are missing or contradict the body."""
    return ClientFault(HEADER_MISMATCH, f"Header mismatch: {detail}")


def missing_capability(required: Mapping[str, Any] = _TASKS) -> ClientFault:
    """Refuse what needs a capability that the client did not declare: the tasks extension, if not another."""
    data = rawjson.encode({"requiredCapabilities": required})
    return ClientFault(MISSING_CAPABILITY, "Missing required client capability", data=data)


def unsupported_version(requested: str, supported: tuple[str, ...]) -> ClientFault:
    """Refuse a protocol version that is not served."""
    data = rawjson.encode({"requested": requested, "supported": supported})
    return ClientFault(UNSUPPORTED_VERSION, "Unsupported protocol version", data=data)


def too_large(limit_bytes: int) -> ClientFault:
    """Refuse a body over the limit."""
    return ClientFault(
        INVALID_REQUEST, f"body: larger than limits.body_bytes = {limit_bytes}", 413,
        reason="limit", limit="limits.body_bytes",
    )  # fmt: skip


def too_slow(limit_ms: int) -> ClientFault:
    """Give up a body that does not come."""
    return ClientFault(
        INVALID_REQUEST, f"body: not here after limits.slow_sender_ms = {limit_ms}", 408,
        reason="limit", limit="limits.slow_sender_ms",
    )  # fmt: skip


def unsupported_media(given: str) -> ClientFault:
    """Refuse a body that says it is not JSON."""
    return ClientFault(INVALID_REQUEST, f"Content-Type: expected application/json, got {given!r}", 415)


def unsupported_coding() -> ClientFault:
    """Refuse a compressed body: what it grows to is not known before it is too late."""
    return ClientFault(
        INVALID_REQUEST, "Content-Encoding: send the body as it is", 415,
        headers=(("Accept-Encoding", "identity"),),
    )  # fmt: skip


def expectation_failed() -> ClientFault:
    """Refuse an expectation that is not to be met."""
    return ClientFault(INVALID_REQUEST, "Expect: only 100-continue is served", 417)


def forbidden_origin(what: str) -> ClientFault:
    """Refuse a browser's origin or a host name that is not allowed (ORIGIN)."""
    return ClientFault(INVALID_REQUEST, f"{what}: not allowed here", 403, reason="origin")


def unauthorized(detail: str, challenges: tuple[str, ...], *, reason: str) -> ClientFault:
    """Ask for a credential: one is required and it is missing or bad (OWN-ID)."""
    headers = tuple(("WWW-Authenticate", challenge) for challenge in challenges)
    return ClientFault(INVALID_REQUEST, detail, 401, headers=headers, reason=reason)


def too_many(detail: str, *, limit: str, retry_after_s: int) -> ClientFault:
    """Refuse because the bound is reached that this key of the config sets for a caller."""
    headers = (("Retry-After", str(retry_after_s)),)
    return ClientFault(INTERNAL, detail, 429, headers=headers, reason="limit", limit=limit)


def all_in_use(detail: str, *, limit: str, retry_after_s: int) -> ClientFault:
    """Refuse because a bound is reached that this caller alone did not fill."""
    headers = (("Retry-After", str(retry_after_s)),)
    return ClientFault(INTERNAL, detail, 503, headers=headers, reason="limit", limit=limit)


def frame_too_large(detail: str) -> UpstreamFault:
    """Give up what an upstream sends beyond the bound."""
    return UpstreamFault(detail, limit="limits.frame_bytes")


def no_such_endpoint(path: str) -> ClientFault:
    """Refuse a path that is not served."""
    return ClientFault(METHOD_NOT_FOUND, f"nothing is served at {path}", 404)


def not_allowed(allow: str) -> ClientFault:
    """Refuse an HTTP method."""
    return ClientFault(METHOD_NOT_FOUND, f"this endpoint takes {allow}", 405, headers=(("Allow", allow),))


def undecided(detail: str, *, retry_after_s: int) -> OwnFault:
    """Answer while it cannot be told who calls: never as another caller (OWN-ID)."""
    return OwnFault(INTERNAL, detail, 503, headers=(("Retry-After", str(retry_after_s)),))


def outcome_unknown() -> OwnFault:
    """Say that a call may or may not have run; it is never sent again (DUR-3)."""
    return OwnFault(INTERNAL, "outcome unknown: the call may have run; it is not sent again")


def stopping() -> UpstreamFault:
    """Answer who comes, or still waits, while the shim stops: what it asked for goes on at the upstream."""
    return UpstreamFault("the shim is stopping", 503)


def answer_not_kept(*, restarted: bool) -> OwnFault:
    """Say that a call ran, but that its answer is gone (DUR-8); it is never sent again."""
    return OwnFault(
        INTERNAL, f"the call ran, but its answer is gone: {_not_kept(restarted)}; it is not sent again"
    )


def end_not_kept(status: str, *, restarted: bool, local: bool) -> OwnFault:
    """Say that a task ended, but that what it ended with is gone (DUR-8)."""
    there = "" if local else ", and the server does not give it any more"
    return OwnFault(
        INTERNAL, f"the task has {status}, but what it ended with is gone: {_not_kept(restarted)}{there}"
    )


def _not_kept(restarted: bool) -> str:  # noqa: FBT001 - of two reasons one
    why = "the shim was restarted" if restarted else "limits.kept_bytes was reached"
    return f"it was kept in memory only (ledger.store_results = false), and {why}"


def lost_task() -> UpstreamFault:
    """Say that the upstream forgot a task before its time (ML-SESSION-LOST)."""
    return UpstreamFault("upstream lost the task", None)


def unusable_ledger(recorded: str) -> OwnFault:
    """Say that the ledger cannot be read or written; a retry is safe only under a key (DUR-3)."""
    return OwnFault(
        INTERNAL, "the shim's ledger cannot be used: whether the request took effect is not known", 500,
        recorded=f"the ledger cannot be used: {recorded}",
    )  # fmt: skip


def internal(detail: str = "internal error of the shim: see its log for this request id") -> OwnFault:
    """Say that the shim failed."""
    return OwnFault(INTERNAL, detail, 500)
