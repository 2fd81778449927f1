"""The one place where the parts are put together, started in order and stopped in the other.

Stopping has four phases: not ready, no new connections, open streams handed back, everything on disk.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from aiohttp import web

from shim import __version__
from shim.admin import Admin
from shim.alive import Alive
from shim.audit.activity import Activity
from shim.audit.events import AuditSink, InstanceStarted, InstanceStopped
from shim.audit.metrics import Metrics
from shim.audit.sink import FileSink, NullSink, new_instance
from shim.audit.trace import Trace
from shim.behind import Behind, Speaks, configured, found, speakers
from shim.callers.keys import Keys
from shim.callers.resolve import build_resolver
from shim.callers.vouch import CredentialStore, VouchBook
from shim.clock import Clock, SystemClock
from shim.config import Config, digest, service_token
from shim.config.live import Live
from shim.config.service import UpstreamConfig
from shim.facing import Facing
from shim.fronts.endpoint import Endpoint
from shim.fronts.guard import Guard
from shim.fronts.relay import Relay
from shim.fronts.server import server_of
from shim.fronts.sunset import sunset_headers
from shim.hub.dialect import Dialect
from shim.hub.registry import load_dialects
from shim.ledger.sqlite import SqliteLedger
from shim.reload import Reload, link_limits
from shim.tasks.questions import Questions
from shim.tasks.room import Room
from shim.tasks.service import Tasks
from shim.upstreams.authority import Authority
from shim.upstreams.http import Link, open_client
from shim.upstreams.legacy.session import LegacySession
from shim.upstreams.prober import Prober
from shim.upstreams.probing import Probed, probe
from shim.upstreams.stdio.serving import BRIDGE_URL, CallerAuthority, bridge_of, serving
from shim.wire.ids import IdMaker

log = structlog.get_logger("shim")


class StartError(RuntimeError):
    """The shim cannot start; the message says why and what to do."""


@dataclass(slots=True)
class App:
    """A running shim."""

    config: Config
    url: str
    admin_url: str | None
    endpoint: Endpoint
    tasks: Tasks
    behind: Behind
    ledger: SqliteLedger
    prober: Prober
    reload: Reload
    """Puts a new config in force. Raises ConfigError; then all is as it was."""


@contextlib.asynccontextmanager
async def running(
    config: Config, *, clock: Clock | None = None, socket: Path | None = None
) -> AsyncIterator[App]:
    """Run a shim while the block runs. Raises StartError, LedgerLocked, DialectError, KeyFileError.

    With `socket` it serves on that Unix socket and not on an address.
    """
    clock = clock or SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        instance = new_instance()
        dialects = load_dialects(config.mappings.files)
        keys = Keys.load(config.identity.key_file)
        metrics = Metrics(_methods(dialects))
        sink = _sink(config, instance)
        stack.push_async_callback(asyncio.to_thread, sink.close)
        live = Live(config)
        in_force, settings = live.as_config(), config.upstream[0]
        ledger = SqliteLedger(
            config.ledger.path, clock, synchronous=config.ledger.synchronous,
            lock_wait_ms=config.ledger.lock_wait_ms, cache_rows=config.ledger.cache_rows,
            on_batch=metrics.commit_batch.observe,
        )  # fmt: skip
        await ledger.open()
        stack.push_async_callback(ledger.close)

        link = await _link(stack, in_force, sink, ledger, clock)
        authority = _authority(config, clock)
        prober = _prober(settings, link, authority, sink, clock)
        room = Room(in_force, ledger, {}, clock, sink)
        questions = Questions(room)
        ids = IdMaker(epoch := await ledger.next_epoch())
        behind = Behind(
            await _speaks(settings, dialects, prober),
            partial(
                speakers, in_force, settings, dialects=dialects, link=link, authority=authority, ids=ids,
                clock=clock, ledger=ledger, events=questions, on_list_changed=_on_list_changed(room),
            ),
        )  # fmt: skip
        stack.push_async_callback(behind.close)
        room.upstreams = behind.speakers
        tasks = Tasks(room, keys, questions, instance=instance, dialects=dialects)
        stack.push_async_callback(tasks.close)
        resolver = build_resolver(config.identity, keys, judged=settings.credentials == "pass")
        facing = Facing(
            in_force, tasks, dialects, Relay(link, authority), ids, epoch, resolver, authority.vouches
        )
        activity = Activity()
        link.on_exchange = partial(metrics.exchange, settings.name)
        metrics.watch(dropped=lambda: sink.dropped, under_way=lambda: activity.under_way)
        endpoint = Endpoint(
            in_force,
            guard=Guard(config),
            resolver=resolver,
            fronts=facing.fronts(behind),
            sink=sink, activity=activity, metrics=metrics, sunset=sunset_headers(config.cutover),
        )  # fmt: skip
        reload = Reload(config, live, keys, sink, endpoint, link, behind, authority)
        await tasks.start()
        sink.emit(InstanceStarted(version=__version__, config_digest=digest(config)))
        stack.callback(
            lambda: sink.emit(InstanceStopped(version=__version__, config_digest=digest(live.in_force)))
        )
        if settings.dialect == "auto":
            link.on_doubt = prober.doubt
            room.start(prober.run(partial(_turn, behind, facing, endpoint)), "probe")
        await _sign_of_life(stack, room, Alive(ledger, activity, sink))
        admin = Admin(metrics, ledger, behind, prober)
        server = server_of(
            endpoint.handle,
            handler_cancellation=True,
            auto_decompress=False,
            max_field_size=config.limits.header_bytes,
        )
        url = await _listen(stack, server, config.listen.host, config.listen.port, config, socket)
        admin_url = None
        if config.admin.enabled:
            admin_url = await _listen(
                stack, server_of(admin.handle), config.admin.host, config.admin.port, config
            )
        stack.push_async_callback(tasks.hand_back.all)
        admin.ready = True
        stack.callback(admin.stopping)
        yield App(
            config, url + config.listen.path, admin_url, endpoint, tasks, behind, ledger, prober, reload
        )


async def _listen(
    stack: contextlib.AsyncExitStack, server: web.Server, host: str, port: int, config: Config,
    socket: Path | None = None,
) -> str:  # fmt: skip
    runner = web.ServerRunner(server, shutdown_timeout=config.limits.shutdown_ms / 1000)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    if socket is not None:
        await web.UnixSite(runner, str(socket)).start()
        return "http://localhost"
    site = web.TCPSite(runner, host, port, backlog=1024)
    try:
        await site.start()
    except OSError as exc:
        raise StartError(f"cannot listen on {host}:{port}: {exc.strerror}") from exc
    bound = runner.addresses[0]
    return f"http://{bound[0]}:{bound[1]}"


async def _link(
    stack: contextlib.AsyncExitStack, config: Config, sink: AuditSink, ledger: SqliteLedger, clock: Clock
) -> Link:
    """Give the way to the upstream; it reports when the server goes and when it comes back."""
    settings = config.upstream[0]
    limits = link_limits(config)
    bridge = bridge_of(config, ledger, clock) if settings.command else None
    socket = await stack.enter_async_context(serving(bridge)) if bridge is not None else None
    client = open_client(limits, socket)
    stack.push_async_callback(client.close)

    def changed(up: bool, evidence: str) -> None:  # noqa: FBT001 - what a link says
        name = "upstream.up" if up else "upstream.down"
        Trace.background(sink, upstream=settings.name).event(name, evidence=evidence)
        if up:  # what comes back may be another version
            link.doubt("it came back")

    link = Link(client, settings.url or BRIDGE_URL, limits, changed)
    if bridge is not None:
        link.on_drop = bridge.drop
    return link


async def _speaks(settings: UpstreamConfig, dialects: Mapping[str, Dialect], prober: Prober) -> Speaks:
    """Tell what the upstream speaks: configured, or found out by asking it (ERA-PROBE)."""
    if settings.dialect != "auto":
        return configured(dialects[settings.dialect])
    probed = await prober.probe()
    if probed.era is None:
        log.warning("the upstream is taken for a legacy one until it is known", upstream=settings.name)
    return found(probed)


def _turn(behind: Behind, facing: Facing, endpoint: Endpoint, probed: Probed) -> None:
    """Serve a server by what it was found to speak now."""
    behind.turn(found(probed))
    facing.tasks.room.upstreams = behind.speakers
    endpoint.fronts = facing.fronts(behind)


def _authority(config: Config, clock: Clock) -> Authority:
    settings = config.upstream[0]
    kind = CallerAuthority if settings.command else Authority
    return kind(
        settings.credentials,
        service_token(settings),
        settings.fixed_headers(),
        vouches=VouchBook(clock, config.identity.vouch_ms, judged=settings.credentials == "pass"),
        held=CredentialStore(clock, config.identity.credential_hold_ms),
    )


def _prober(
    settings: UpstreamConfig, link: Link, authority: Authority, sink: AuditSink, clock: Clock
) -> Prober:
    return Prober(
        settings.name,
        lambda: probe(link, sink, settings.name, authority.own()),
        clock,
        again_ms=settings.probe_again_ms,
    )


def _sink(config: Config, instance: str) -> FileSink | NullSink:
    if config.audit.path is None:
        return NullSink()
    return FileSink(
        config.audit.path, instance=instance, max_bytes=config.audit.max_bytes, daily=config.audit.daily,
        queue=config.audit.queue,
    )  # fmt: skip


async def _sign_of_life(stack: contextlib.AsyncExitStack, room: Room, alive: Alive) -> None:
    """Tell at once, every minute and at the end, so that a short run is covered too."""
    await alive.tell()
    stack.push_async_callback(alive.tell)
    room.start(alive.run(room.clock), "alive")


def _on_list_changed(room: Room) -> Callable[[LegacySession], None]:
    def changed(session: LegacySession) -> None:
        for upstream in room.upstreams.values():
            upstream.tools_changed(session.id)

    return changed


def _methods(dialects: Mapping[str, Dialect]) -> list[str]:
    names = {
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "GET",
        "DELETE",
    }
    for dialect in dialects.values():
        names |= dialect.methods.names()
    return sorted(names)
