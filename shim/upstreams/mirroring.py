"""Which parameters of each tool go into headers, as far as it is known; most servers want none."""

from collections.abc import Awaitable, Callable

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.recent import Recent
from shim.wire.jsonrpc import Response
from shim.wire.param_headers import InvalidAnnotation, Mirrored, mirrored_params

_REMEMBERED = 1_000
_TOOLS = 10_000

Page = Callable[[Members], Awaitable[Response]]
"""Reads one page of tools/list."""


class Mirroring:
    """Remembers, for each caller, what the tools want that it was shown."""

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self._known: Recent[str, dict[str, Mirrored]] = Recent(_REMEMBERED)

    def knows(self, caller: str) -> bool:
        """Tell whether a caller's tools have been seen."""
        return caller in self._known

    def of(self, caller: str, tool: str) -> Mirrored:
        """Give what a tool is known to want."""
        return self._known.get(caller, {}).get(tool, {})

    def take(self, caller: str, params: Members, result: bytes) -> str | None:
        """Take a page of tools in, the first one in place of all before; gives the cursor of the next."""
        page = rawjson.decode(result)
        tools = page.get("tools") if isinstance(page, dict) else None
        wanted = self._known[caller] = self._known.get(caller, {})
        if "cursor" not in params:
            wanted.clear()
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                wanted.pop(name, None)
                if (mirrored := _mirrored(tool)) and len(wanted) < _TOOLS:
                    wanted[name] = mirrored
        cursor = page.get("nextCursor") if isinstance(page, dict) else None
        return cursor if isinstance(cursor, str) else None

    async def learn(self, caller: str, page: Page) -> None:
        """Read the tools of a caller. Raises ShimError."""
        params: Members = {}
        for _ in range(self._pages):
            response = await page(params)
            cursor = self.take(caller, params, response.result or b"{}")
            if cursor is None:
                break
            params = {"cursor": rawjson.encode(cursor)}


def _mirrored(tool: dict[str, object]) -> Mirrored:
    """Give what a tool wants; one whose annotations are no good is for its clients to leave out."""
    try:
        return mirrored_params(tool.get("inputSchema"))
    except InvalidAnnotation:
        return {}
