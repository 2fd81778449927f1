"""What a server is, found out by asking it: for `probe`, and for `check --online`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shim.audit.sink import NullSink
from shim.audit.trace import Trace
from shim.behind import SEP_2663
from shim.behind import found as speaks
from shim.callers.caller import NOBODY
from shim.callers.vouch import CredentialStore, VouchBook
from shim.clock import SystemClock
from shim.config.limits import Limits as Bounds
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members, RawJsonError
from shim.upstreams.authority import Authority
from shim.upstreams.base import Context, Question
from shim.upstreams.http import Limits, Link, open_client
from shim.upstreams.legacy.exchange import Gone
from shim.upstreams.legacy.session import LegacySession, Parts
from shim.upstreams.modern.exchange import Exchange
from shim.upstreams.modern.exchange import Parts as ModernParts
from shim.upstreams.probing import Probed, probe
from shim.wire.envelope import META_SERVER_INFO, initialize_params, offers_task_calls
from shim.wire.era import LEGACY_VERSIONS, Era
from shim.wire.errors import METHOD_NOT_FOUND, TASKS_EXTENSION, UpstreamFault
from shim.wire.ids import IdMaker
from shim.wire.jsonrpc import Response, write_notification
from shim.wire.methods import INITIALIZED

_NAME, _VERSION = "taskshim-probe", "1"
_NO_METHOD = "tasks/taskshim-probe"
_NO_TASK = {"taskId": b'"taskshim-probe"'}


@dataclass(slots=True)
class Survey:
    """What was found; what could not be found out is None or empty, and `fault` says why."""

    url: str
    era: str | None
    evidence: str
    version: str | None = None
    server: str | None = None
    sessions: bool | None = None
    tasks: bool | None = None
    """Whether its capabilities have tasks for tools/call."""
    dialect: str | None = None
    """The dialect it speaks of tasks, as far as it says so or answers it."""
    tools: dict[str, str] = field(default_factory=dict)
    """Tool -> its task support; `decides` where the server decides for each call."""
    schemas: dict[str, Any] = field(default_factory=dict)
    """Tool -> its inputSchema."""
    hints: dict[str, Any] = field(default_factory=dict)
    """Tool -> its annotations."""
    legacy_too: str | None = None
    """The legacy version that a modern server answers as well."""
    legacy_tasks: bool | None = None
    """Whether its legacy side has tasks."""
    hosts: bool | None = None
    """Whether the shim would itself be the server of its legacy clients, or would relay them."""
    fault: str | None = None


async def survey(
    url: str, dialects: Mapping[str, Dialect], headers: Sequence[tuple[str, str]] = (), *, timeout_ms: int,
    compared: bool = False, socket: str | None = None,
) -> Survey:  # fmt: skip
    """Ask a server what it speaks and what its tools support. Never raises for what the server does.

    `compared` asks for the tools of a modern server too, which say nothing of tasks. With `socket` it is
    asked over that Unix socket.
    """
    bounds = Bounds()
    limits = Limits(bounds.frame_bytes, timeout_ms, timeout_ms)
    client = open_client(url, limits, socket)
    try:
        link = Link(client, limits)
        probed = await probe(link, NullSink(), "probe", headers)
        found = Survey(url, probed.era.value if probed.era else None, probed.verdict.evidence)
        if probed.era is Era.MODERN:
            _modern(found, probed)
            if compared:
                try:
                    await _modern_tools(found, link, headers, bounds)
                except (UpstreamFault, RawJsonError) as exc:
                    found.fault = str(exc)
        elif probed.era is Era.LEGACY:
            try:
                await _legacy(found, link, dialects, headers, bounds)
            except Gone as exc:
                found.fault = f"the server answered HTTP {exc} on a session it had just opened"
            except (UpstreamFault, RawJsonError) as exc:
                found.fault = str(exc)
        return found
    finally:
        await client.close()


def _modern(found: Survey, probed: Probed) -> None:
    said = rawjson.decode(rawjson.join(probed.init))
    versions = said.get("supportedVersions")
    found.version = ", ".join(map(str, versions)) if isinstance(versions, list) else None
    found.server = _server(_get(said, "_meta", META_SERVER_INFO))
    found.tasks = _get(said, "capabilities", "extensions", TASKS_EXTENSION) is not None
    found.dialect = SEP_2663 if found.tasks else None
    found.hosts = speaks(probed).hosts
    if probed.legacy_too is not None:
        found.legacy_too = rawjson.string(probed.legacy_too.get("protocolVersion"))
        found.legacy_tasks = offers_task_calls(rawjson.join(probed.legacy_too))


async def _modern_tools(
    found: Survey, link: Link, headers: Sequence[tuple[str, str]], bounds: Bounds
) -> None:
    parts = ModernParts(link, IdMaker(0), _authority(headers), SystemClock())
    exchange, ctx = Exchange(parts), Context(caller=NOBODY, trace=Trace.background(NullSink()))

    async def page(params: Members) -> Response:
        return await exchange.ask(ctx, "tools/list", params)

    await _tools(found, page, "decides" if found.tasks else "none", bounds)


def _authority(headers: Sequence[tuple[str, str]]) -> Authority:
    clock = SystemClock()
    return Authority("none", None, dict(headers), vouches=VouchBook(clock, 0), held=CredentialStore(clock, 0))


async def _legacy(
    found: Survey, link: Link, dialects: Mapping[str, Dialect], headers: Sequence[tuple[str, str]],
    bounds: Bounds,
) -> None:  # fmt: skip
    # the ids are used on a session that nothing else will ever use
    parts = Parts(link, IdMaker(0), _authority(headers), _Deaf(), SystemClock())
    ctx = Context(caller=NOBODY, trace=Trace.background(NullSink()))
    session = await LegacySession.handshake(
        parts, ctx, initialize_params(_NAME, _VERSION, {}, LEGACY_VERSIONS[0])
    )
    said = rawjson.decode(session.row.init)
    found.version, found.sessions = session.row.version, session.wire_id is not None
    found.server = _server(said.get("serverInfo"))
    found.tasks = offers_task_calls(session.row.init)
    await session.post(ctx, write_notification(INITIALIZED, {}))
    found.dialect = "experimental" if found.tasks else await _answered(session, ctx, dialects)
    assumed = dialects[found.dialect].tool_support if found.dialect else "none"

    async def page(params: Members) -> Response:
        return await session.request(ctx, "tools/list", params)

    await _tools(found, page, None if assumed == "listed" else assumed, bounds)


async def _answered(session: LegacySession, ctx: Context, dialects: Mapping[str, Dialect]) -> str | None:
    """Find the dialect whose method for a task's state the server knows; asking changes nothing there.

    Servers differ in how they refuse an unknown method, so one that cannot exist is asked for first.
    """
    unknown = _refusal(await session.request(ctx, _NO_METHOD, _NO_TASK), _NO_METHOD)
    for dialect in dialects.values():
        if dialect.era != "legacy" or dialect.lists_task_support:
            continue
        method = dialect.methods.get
        answer = await session.request(ctx, method, _NO_TASK)
        if answer.error is None or _refusal(answer, method) != unknown:
            return dialect.name
    return None


async def _tools(
    found: Survey, read: Callable[[Members], Awaitable[Response]], assumed: str | None, bounds: Bounds
) -> None:
    """Read the tools; `assumed` is the support of all of them where it is not listed."""
    params: Members = {}
    for _ in range(bounds.pages):
        response = await read(params)
        if response.result is None:
            raise UpstreamFault("the server refused tools/list")
        page = rawjson.decode(response.result)
        tools = page.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(name := _get(tool, "name"), str):
                found.tools[name] = assumed or str(_get(tool, "execution", "taskSupport") or "forbidden")
                found.schemas[name] = _get(tool, "inputSchema")
                found.hints[name] = _get(tool, "annotations")
        cursor = page.get("nextCursor")
        if cursor is None or len(found.tools) >= bounds.tools:
            break
        params = {"cursor": rawjson.encode(cursor)}


class _Deaf:
    """Hears what the server says of its own accord: there is nobody to be asked."""

    async def question(self, question: Question) -> None:
        """Refuse."""
        await question.refuse(METHOD_NOT_FOUND, "taskshim probe answers no questions")

    async def withdrawn(self, session_id: str, request_id: bytes) -> None:
        """Leave it."""

    async def status(self, task_pk: int) -> None:
        """Leave it."""

    async def progress(self, task_pk: int, message: str) -> None:
        """Leave it."""

    async def unheard(self, task_pk: int) -> None:
        """Leave it."""


def _get(value: Any, *path: str) -> Any:
    """Follow a path through objects; None where it ends early."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _server(info: Any) -> str | None:
    name = _get(info, "name")
    return None if name is None else f"{name} {_get(info, 'version') or ''}".strip()


def _refusal(answer: Response, method: str) -> tuple[Any, str]:
    error = rawjson.decode(answer.error or b"{}")
    return _get(error, "code"), str(_get(error, "message")).replace(method, "")
