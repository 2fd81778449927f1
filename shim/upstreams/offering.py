"""Which tools a server offers, as far as somebody was shown them lately (CUTOVER-TOOL).

What one caller was shown counts for all: the server itself refuses what is not for a caller. A tool that
nobody was shown is asked for, by each caller once in a while.
"""

import asyncio

from shim.clock import Clock
from shim.config import Config
from shim.hub import rawjson
from shim.hub.rawjson import Members, RawJsonError
from shim.recent import Recent
from shim.upstreams.base import Context, SessionLost, Upstream
from shim.wire.errors import ShimError
from shim.wire.tool_lists import tool_names

_CALLERS = 10_000


class Offering:
    """The tools of one server, by the time they were last listed."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._listed: dict[str, float] = {}
        self._asked: Recent[str, float] = Recent(_CALLERS)
        self._asking: dict[str, asyncio.Task[bool]] = {}

    def shows(self, tool: str) -> bool:
        """Tell whether somebody was shown a tool lately."""
        return self._young(self._listed.get(tool))

    async def has(self, upstream: Upstream, ctx: Context, tool: str) -> bool | None:
        """Tell whether the server lists a tool; None where it cannot be asked. Use the context no more."""
        if self.shows(tool):
            return True
        if tool in self._listed and self._asking:
            return True  # another request is finding out
        caller = ctx.caller.key
        if not self._young(self._asked.get(caller)):
            asking = self._asking.get(caller)
            if asking is None:
                asking = self._asking[caller] = asyncio.create_task(self._ask(upstream, ctx), name="tools")
                asking.add_done_callback(lambda _: self._asking.pop(caller, None))
            if not await asyncio.shield(asking):
                return None
        return self.shows(tool)

    def _young(self, at_ms: float | None) -> bool:
        return at_ms is not None and self._clock.ticks_ms() - at_ms < self._config.cutover.tools_age_ms

    async def _ask(self, upstream: Upstream, ctx: Context) -> bool:
        """Read the list; False where there was none."""
        limits, now_ms, params = self._config.limits, self._clock.ticks_ms(), Members()
        found: list[str] = []
        try:
            for _ in range(limits.pages):
                response = await upstream.plain(ctx, "tools/list", params)
                if response.result is None:
                    return False
                found += tool_names(response.result)
                cursor = rawjson.members(response.result).get("nextCursor")
                if rawjson.string(cursor) is None or cursor is None:
                    break
                if len(found) >= limits.tools:
                    ctx.trace.reached("limits.tools")
                    break
                params = {"cursor": cursor}
            else:
                ctx.trace.reached("limits.pages")
        except (ShimError, RawJsonError, SessionLost, TimeoutError):
            return False
        self._listed = {name: at for name, at in self._listed.items() if self._young(at)}
        self._listed |= dict.fromkeys(found[: limits.tools], now_ms)
        self._asked[ctx.caller.key] = now_ms
        return True
