"""How a modern client's request goes on to a modern server: headers, a tap on the answer (MM-1)."""

from aiohttp import web

from shim.fronts.modern_seen import Asked, of_answer
from shim.fronts.origin_tap import naming
from shim.fronts.relay import Relay, Tap
from shim.hub.rawjson import Members
from shim.tasks.origin import Origins
from shim.wire.headers import encode_value, mirrored
from shim.wire.http import MCP_METHOD, MCP_NAME, PROTOCOL_VERSION
from shim.wire.jsonrpc import Request, Response, write_message

_PARAM = "mcp-param-"


class ModernPassing:
    """Forwards requests to one server; the client gets what comes back, but for what a tap makes of it."""

    def __init__(self, relay: Relay, origins: Origins, upstream: str) -> None:
        self._relay = relay
        self._origins = origins
        self._upstream = upstream

    async def forward(
        self, asked: Asked, *, params: Members | None = None, tap: Tap | None = None
    ) -> web.StreamResponse:
        """Forward a request, with other params if given. Raises UpstreamFault and what the tap raises."""
        request = asked.request
        if params is not None:
            request = Request(request.id, request.method, params)
        return await self._relay.forward(
            asked.http, asked.ctx, asked.reply, write_message(request),
            mirrored=_mirroring(asked, request),
            tap=naming(
                self._origins, asked.ctx.caller, self._upstream, asked.request.method,
                tap or of_answer(asked, _as_it_is),
            ),
        )  # fmt: skip


async def _as_it_is(_response: Response) -> None:
    """Let an answer that concerns no task pass."""


def _mirroring(asked: Asked, request: Request) -> list[tuple[str, str]]:
    """Give the headers that say what the body says, also the one that some clients leave out."""
    name = mirrored(request.method, request.params)
    named = asked.http.headers.getall(MCP_NAME, ())[:1] if name is None else [encode_value(name)]
    return [
        (PROTOCOL_VERSION, asked.meta.version),
        (MCP_METHOD, request.method),
        *((MCP_NAME, value) for value in named),
        *_mirrored_params(asked.http),
    ]


def _mirrored_params(http: web.BaseRequest) -> list[tuple[str, str]]:
    return [(name, value) for name, value in http.headers.items() if name.lower().startswith(_PARAM)]
