"""What a modern server answers to the shim's legacy clients: its tools, prompts and resources (LM-TOOLS)."""

from collections.abc import Mapping

from aiohttp import web

from shim.config import Config
from shim.fronts.detect import Detector
from shim.fronts.hosted.calls import Calls
from shim.fronts.hosted.verbs import Handler
from shim.fronts.legacy_request import Asked
from shim.hub import rawjson
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.tasks.promote import listed, offers_tasks
from shim.upstreams.base import Context, Upstream
from shim.wire.era import knows_tasks
from shim.wire.hosting import legacy_notice, legacy_result, upstream_params
from shim.wire.jsonrpc import Notification
from shim.wire.param_headers import why_invalid
from shim.wire.tool_lists import tool_names, tools_with_support, without_tools

_SHOWN_CHARS = 200


class Onwards:
    """Serves the methods that go on to the server."""

    def __init__(self, config: Config, upstream: Upstream, detector: Detector, calls: Calls) -> None:
        self._config = config
        self._upstream = upstream
        self._detector = detector
        self._calls = calls
        self.handlers: Mapping[str, Handler] = {
            "tools/list": self._tools,
            CALL: self._tools_call,
            "prompts/list": self._plain,
            "prompts/get": self._plain,
            "resources/list": self._plain,
            "resources/templates/list": self._plain,
            "resources/read": self._plain,
            "completion/complete": self._plain,
        }

    async def _plain(self, asked: Asked) -> web.StreamResponse:
        params, asked.ctx.progress_token = upstream_params(asked.message.params)

        async def notify(message: Notification) -> None:
            await asked.reply.notify(Notification(message.method, legacy_notice(message.params)))

        asked.ctx.notify = notify
        return await self._calls.run(asked, params)

    async def _tools_call(self, asked: Asked) -> web.StreamResponse:
        asked.ctx.trace.tool = rawjson.string(asked.message.params.get("name"))
        self._detector.pass_over(asked)
        return await self._plain(asked)

    async def _tools(self, asked: Asked) -> web.StreamResponse:
        """List the tools, each as one that may run as a task where the server has tasks (LM-TOOLS).

        One that asks for headers against the rules is left out, as a client of the new API has to.
        """
        asked.ctx.trace.rule("LM-TOOLS")
        params, _ = upstream_params(asked.message.params)
        response = await self._upstream.plain(asked.ctx, asked.message.method, params)
        if response.result is None:
            return await self._calls.say(asked, response)
        result, _ = legacy_result(response.result)
        result = without_tools(result, lambda tool: _is_out(asked.ctx, tool))
        facts = await self._upstream.facts(asked.ctx)
        knows = asked.session is None or knows_tasks(asked.session.version)
        if knows and offers_tasks(self._config, facts) and asked.dialect.lists_task_support:
            support = await listed(self._config, self._upstream, asked.ctx, tool_names(result))
            result = tools_with_support(result, support)
        return await self._calls.give(asked, result)


def _is_out(ctx: Context, tool: Members) -> bool:
    """Tell whether a tool has to be left out for what its schema says of headers (LM-TOOLS)."""
    why = why_invalid(tool)
    if why is not None:
        name = (rawjson.string(tool.get("name")) or "")[:_SHOWN_CHARS]
        detail = f"tool {name!r}: x-mcp-header: {why}"
        ctx.trace.event("upstream.invalid", rule="LM-TOOLS", detail=detail[: 2 * _SHOWN_CHARS])
    return why is not None
