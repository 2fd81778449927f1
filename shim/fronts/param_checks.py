"""A modern client's `Mcp-Param-*` headers, held to the call's arguments (VALIDATE).

What a tool wants is taken from the lists that the caller is given. A header of a tool that the list does not
name for it is nobody's, and ignored.
"""

from aiohttp import web

from shim.hub import rawjson
from shim.hub.rawjson import Members, RawJsonError
from shim.upstreams.base import Context, Upstream
from shim.upstreams.mirroring import Mirroring
from shim.wire.errors import invalid_params
from shim.wire.param_headers import PREFIX, check_param_headers

_LIST = "tools/list"


class ParamChecks:
    """Knows the tools of each caller and checks their calls."""

    def __init__(self, upstream: Upstream, pages: int) -> None:
        self._upstream = upstream
        self._mirroring = Mirroring(pages)

    def listed(self, ctx: Context, params: Members, result: bytes) -> None:
        """Take in a page of tools on its way to the caller."""
        self._mirroring.take(ctx.caller.key, params, result)

    async def check(self, http: web.BaseRequest, ctx: Context, params: Members, *, ask: bool) -> None:
        """Check a call; `ask` reads the tools where headers came and no list was seen. Raises ClientFault."""
        key = ctx.caller.key
        headed = any(name.lower().startswith(PREFIX.lower()) for name in http.headers)
        if ask and headed and not self._mirroring.knows(key):
            await self._mirroring.learn(key, lambda page: self._upstream.plain(ctx, _LIST, page))
        mirrored = self._mirroring.of(key, rawjson.string(params.get("name")) or "")
        try:
            check_param_headers(http.headers, mirrored, params.get("arguments"))
        except RawJsonError as exc:
            raise invalid_params(f"params.arguments: {exc}") from exc
