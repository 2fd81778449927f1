"""Which parameters each tool of a modern server wants in headers: asked for when the server misses them."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.wire.jsonrpc import Response
from shim.wire.param_headers import Mirrored, mirrored_params

_REMEMBERED = 1_000

Page = Callable[[Members], Awaitable[Response]]
"""Reads one page of tools/list."""


class Mirroring:
    """Remembers, for each caller, the parameters that were missed; most servers want none."""

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self._known: OrderedDict[str, dict[str, Mirrored]] = OrderedDict()

    def of(self, caller: str, tool: str) -> Mirrored:
        """Give what a tool is known to want."""
        return self._known.get(caller, {}).get(tool, {})

    async def learn(self, caller: str, page: Page) -> None:
        """Read the tools of a caller. Raises ShimError."""
        wanted: dict[str, Mirrored] = {}
        params: Members = {}
        for _ in range(self._pages):
            response = await page(params)
            result = rawjson.decode(response.result or b"{}")
            tools = result.get("tools")
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                    wanted[name] = mirrored_params(tool.get("inputSchema"))
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str):
                break
            params = {"cursor": rawjson.encode(cursor)}
        self._known[caller] = {name: mirrored for name, mirrored in wanted.items() if mirrored}
        self._known.move_to_end(caller)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
