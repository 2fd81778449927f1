"""Which tools of a legacy server run as tasks: from `tools/list`, or the operator's word (ML-CREATE)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from shim.clock import Clock
from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.recent import Recent
from shim.upstreams.base import Context
from shim.upstreams.support import override
from shim.wire.errors import UpstreamFault
from shim.wire.jsonrpc import Response

REMEMBERED = 10_000
"""Callers whose tools are kept at hand."""
FORBIDDEN = "forbidden"
_KNOWN = ("required", "optional")

Page = Callable[[Members], Awaitable[Response]]
"""Reads one page of tools/list."""


class Catalog:
    """The task support of one caller's tools; read once, and again after the server says that it changed."""

    def __init__(self, overrides: Mapping[str, str], *, pages: int, tools: int) -> None:
        self._overrides = overrides
        self._pages = pages
        self._tools = tools
        self._support: dict[str, str] | None = None
        self._reading: asyncio.Task[dict[str, str]] | None = None
        self._generation = 0
        self.cut: str | None = None
        """The bound at which the list was read no further, by its key in the config."""
        self.used_ms = 0.0
        """When it was asked for last, in ticks."""

    def changed(self) -> None:
        """Read the list again before the next call."""
        self._support = None
        self._generation += 1

    async def support(self, tool: str, page: Page) -> str:
        """Tell a tool's task support: required, optional or forbidden. Raises ShimError."""
        if (forced := self.override(tool)) is not None:
            return forced
        if self._support is None:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read(page), name="tools-list")
            generation = self._generation
            support = await asyncio.shield(self._reading)
            if generation == self._generation:
                self._support = support
            return support.get(tool, FORBIDDEN)
        return self._support.get(tool, FORBIDDEN)

    def override(self, tool: str) -> str | None:
        """Give what the operator says of a tool, if anything."""
        return override(self._overrides, tool)

    async def _read(self, page: Page) -> dict[str, str]:
        support: dict[str, str] = {}
        params: Members = {}
        for _ in range(self._pages):
            response = await page(params)
            if response.result is None:
                raise UpstreamFault("the upstream refused tools/list")
            result = rawjson.members(response.result)
            tools = rawjson.decode(result.get("tools", b"[]"))
            for tool in tools if isinstance(tools, list) else ():
                _take(tool, support)
            cursor = result.get("nextCursor")
            if cursor is None or cursor == b"null":
                break
            if len(support) >= self._tools:
                self.cut = "limits.tools"
                break
            params = {"cursor": cursor}
        else:
            self.cut = "limits.pages"
        return support


class Catalogs:
    """The catalogues of all callers: one for each caller and set of question kinds."""

    def __init__(self, overrides: Mapping[str, str], *, pages: int, tools: int, clock: Clock) -> None:
        self._new = partial(Catalog, overrides, pages=pages, tools=tools)
        self._clock = clock
        self._catalogs: Recent[tuple[str, frozenset[str]], Catalog] = Recent(REMEMBERED)

    def __len__(self) -> int:
        return len(self._catalogs)

    def of(self, ctx: Context) -> Catalog:
        """Give a caller's."""
        key = (ctx.caller.key, ctx.kinds)
        catalog = self._catalogs.get(key)
        if catalog is None:
            catalog = self._catalogs[key] = self._new()
        catalog.used_ms = self._clock.ticks_ms()
        return catalog

    def forget(self, caller: str, kinds: frozenset[str]) -> None:
        """Take it that a caller's tools changed."""
        self._catalogs.pop((caller, kinds), None)

    def sweep(self, idle_ms: int) -> None:
        """Forget those that nobody asked for lately."""
        before_ms = self._clock.ticks_ms() - idle_ms
        for key in [key for key, one in self._catalogs.items() if one.used_ms < before_ms]:
            del self._catalogs[key]


def _take(tool: object, support: dict[str, str]) -> None:
    if not isinstance(tool, dict) or not isinstance(name := tool.get("name"), str):
        return
    execution = tool.get("execution")
    said = execution.get("taskSupport") if isinstance(execution, dict) else None
    support[name] = said if said in _KNOWN else FORBIDDEN
