"""Which calls the shim itself runs as tasks: of tools that the operator names (PROMOTE-1)."""

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase

from shim.config import Config
from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.upstreams.base import Context, Facts, Upstream
from shim.wire.errors import ShimError


def is_promoted(config: Config, tool: str) -> bool:
    """Tell whether the operator names a tool."""
    return any(fnmatchcase(tool, glob) for glob in config.tasks.promote)


def offers_tasks(config: Config, facts: Facts) -> bool:
    """Tell whether clients are told of tasks: the server's own, or the shim's."""
    return facts.has_tasks or bool(config.tasks.promote)


async def supported(upstream: Upstream, ctx: Context, tool: str) -> str:
    """Tell a tool's task support at its server: required, optional or forbidden. Raises ShimError."""
    return await upstream.tool_support(ctx, tool) if (await upstream.facts(ctx)).has_tasks else "forbidden"


async def promotes(config: Config, upstream: Upstream, ctx: Context, tool: str) -> bool:
    """Tell whether the shim is to run a tool as a task: it is named, and has none there. Raises ShimError."""
    return is_promoted(config, tool) and await supported(upstream, ctx, tool) == "forbidden"


async def listed(config: Config, upstream: Upstream, ctx: Context, tools: Iterable[str]) -> dict[str, str]:
    """Give the task support of tools as legacy clients are shown it. Raises ShimError."""
    support: dict[str, str] = {}
    for tool in tools:
        said = await supported(upstream, ctx, tool)
        support[tool] = "optional" if said == "forbidden" and is_promoted(config, tool) else said
    return support


async def is_idempotent(config: Config, upstream: Upstream, ctx: Context, tool: str) -> bool:
    """Tell whether the server's tools/list says that a tool may run twice; not known means no."""
    quiet = replace(ctx, notify=None, progress_token=None)
    params: Members = {}
    for _ in range(config.limits.pages):
        try:
            response = await upstream.plain(quiet, "tools/list", params)
        except ShimError:
            return False
        page = rawjson.decode(response.result or b"{}")
        tools = page.get("tools")
        for one in tools if isinstance(tools, list) else ():
            if isinstance(one, dict) and one.get("name") == tool:
                annotations = one.get("annotations")
                return isinstance(annotations, dict) and annotations.get("idempotentHint") is True
        if not isinstance(cursor := page.get("nextCursor"), str):
            return False
        params = {"cursor": rawjson.encode(cursor)}
    return False
