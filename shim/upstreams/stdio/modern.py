"""A modern process, which all requests of one caller share: each goes out under an id of its own.

Clients choose their ids and progress tokens without knowing of each other. What comes back carries those
of the client again, the subscription's too, which is its request's id.
"""

import contextlib

from shim.hub import rawjson
from shim.hub.rawjson import Members, RawJsonError
from shim.upstreams.stdio.peer import Inbox, Peer, progress_token
from shim.upstreams.stdio.process import Process
from shim.wire.envelope import META_SUBSCRIPTION, with_progress_token
from shim.wire.jsonrpc import (
    Message,
    Notification,
    Request,
    Response,
    write_message,
    write_notification,
    write_request,
)
from shim.wire.methods import CANCELLED


class ModernPeer(Peer):
    """A process that serves one caller's requests."""

    def __init__(self, process: Process, name: str, now_ms: int) -> None:
        super().__init__(process, name, now_ms)
        self._count = 0

    async def ask(self, request: Request) -> Inbox:
        """Send a request under an id that no other has. Raises ConnectionError."""
        self._count += 1
        own = rawjson.encode(self._count)
        params = request.params
        if _token(request) is not None:
            params = with_progress_token(params, own)
        inbox = self._opened(own, request)
        await self.tell(write_request(own, request.method, params))
        return inbox

    async def left(self, inbox: Inbox) -> None:
        """Call off what is still under way: a client of this era says so by leaving."""
        own = next((key for key, one in self.inboxes.items() if one is inbox), None)
        if own is not None:
            del self.inboxes[own]
            with contextlib.suppress(ConnectionError):
                await self.tell(write_notification(CANCELLED, {"requestId": own}))

    def take(self, message: Message, line: bytes) -> None:
        """Give an answer to who asked, and a notification to the exchange that it names."""
        if isinstance(message, Response):
            inbox = self.inboxes.pop(message.id or b"", None)
            if inbox is not None and inbox.request is not None:
                inbox.put(write_message(_answered(message, inbox.request)), last=True)
        elif isinstance(message, Notification):
            self._notify(message, line)
        else:
            self._process.complain(f"a request on standard output: {message.method}")

    def _notify(self, message: Notification, line: bytes) -> None:
        subscription = _subscription(message.params)
        inbox = self.inboxes.get(progress_token(message) or subscription or b"")
        if inbox is None:
            if subscription is None and len(self.inboxes) == 1:
                next(iter(self.inboxes.values())).put(line)
            return
        assert inbox.request is not None  # noqa: S101 - this era's exchanges all are requests
        params = message.params
        if subscription is None:
            params = {**params, "progressToken": _token(inbox.request) or b"null"}
        else:
            params = {**params, "_meta": _subscribed(params, inbox.request.id)}
        inbox.put(write_notification(message.method, params))


def _answered(message: Response, request: Request) -> Response:
    result = message.result
    if result is not None and b"subscriptionId" in result:
        members = rawjson.members(result)
        if _subscription(members) is not None:
            result = rawjson.join({**members, "_meta": _subscribed(members, request.id)})
    return Response(request.id, result, message.error)


def _meta(params: Members) -> Members:
    try:
        return rawjson.members(params.get("_meta", b"{}"))
    except RawJsonError:
        return {}


def _token(request: Request) -> bytes | None:
    return _meta(request.params).get("progressToken")


def _subscription(params: Members) -> bytes | None:
    return _meta(params).get(META_SUBSCRIPTION)


def _subscribed(params: Members, request_id: bytes) -> bytes:
    return rawjson.join({**_meta(params), META_SUBSCRIPTION: request_id})
