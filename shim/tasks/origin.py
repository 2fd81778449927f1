"""Which upstream gave what a client carries back without a session: a requestState, a cursor (CUTOVER-STAY).

With several upstreams the name of the one is put before it, signed for the caller; what the server wrote is
behind it as it was and goes back to that server, whatever the rules say by then.
"""

import hashlib

from shim.callers.caller import Caller
from shim.callers.keys import Keys
from shim.hub import rawjson
from shim.hub.rawjson import Members, RawJsonError
from shim.wire.jsonrpc import Response, read_upstream, write_result
from shim.wire.methods import RUN

_PURPOSE = "origin"
_STATE, _NEXT, _CURSOR = "requestState", "nextCursor", "cursor"
_LISTS = frozenset(("tools/list", "prompts/list", "resources/list", "resources/templates/list"))
_GIVEN = dict.fromkeys(RUN, _STATE) | dict.fromkeys(_LISTS, _NEXT)
_BROUGHT = dict.fromkeys(RUN, _STATE) | dict.fromkeys(_LISTS, _CURSOR)
_SEPARATOR = "."


class Origins:
    """Puts an upstream's name before what it gave, and reads it again. With one upstream nothing is put."""

    def __init__(self, keys: Keys, *, several: bool) -> None:
        self._keys = keys
        self._several = several

    def named(self, caller: Caller, upstream: str, method: str, result: bytes | None) -> bytes | None:
        """Give a result whose state or cursor names its upstream; the same bytes where it has none."""
        name = _GIVEN.get(method)
        if not self._several or name is None or result is None or name.encode() not in result:
            return result
        try:
            members = rawjson.members(result)
        except RawJsonError:
            return result
        given = rawjson.string(members.get(name))
        if given is None:
            return result
        tag = self._keys.sign(_PURPOSE, _bound_to(caller, given), upstream)
        return rawjson.join({**members, name: rawjson.encode(tag + _SEPARATOR + given)})

    def response(self, caller: Caller, upstream: str, method: str, response: Response) -> Response:
        """Give an answer whose state or cursor names its upstream."""
        result = self.named(caller, upstream, method, response.result)
        return response if result is response.result else Response(response.id, result, response.error)

    def message(self, caller: Caller, upstream: str, method: str, data: bytes) -> bytes | None:
        """Give a server's message so; None where it may pass as it is. Raises UpstreamFault."""
        name = _GIVEN.get(method)
        if not self._several or name is None or name.encode() not in data:
            return None
        message = read_upstream(data)
        if not isinstance(message, Response) or message.id is None or message.result is None:
            return None
        result = self.named(caller, upstream, method, message.result)
        return None if result is None or result is message.result else write_result(message.id, result)

    def read(self, caller: Caller, method: str, params: Members) -> tuple[str, Members] | None:
        """Give the upstream that a request's state or cursor names, and its params as that server knows them.

        None where it names none: it has no state, or not one that this caller was given so.
        """
        name = _BROUGHT.get(method)
        text = rawjson.string(params.get(name)) if name is not None else None
        if name is None or text is None:
            return None
        tag, separator, given = text.partition(_SEPARATOR)
        upstream = self._keys.verify(_PURPOSE, _bound_to(caller, given), tag) if separator else None
        return None if upstream is None else (upstream, {**params, name: rawjson.encode(given)})


def _bound_to(caller: Caller, given: str) -> str:
    return f"{caller.key} {hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()}"
