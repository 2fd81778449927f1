"""The one place where the parts are put together, started in order and stopped in the other.

Stopping has four phases: not ready, no new connections, open streams handed back, everything on disk.
"""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from shim import __version__
from shim.admin import Admin
from shim.alive import Alive
from shim.audit.activity import Activity
from shim.audit.events import InstanceStarted, InstanceStopped
from shim.audit.methods import method_names
from shim.audit.metrics import Metrics
from shim.audit.notices import Notices
from shim.audit.request_log import RequestLog
from shim.audit.sink import new_instance
from shim.audit.traffic import Traffic
from shim.behind import Behind, speakers
from shim.callers.keys import Keys
from shim.clock import Clock, SystemClock
from shim.config import Config, digest
from shim.config.live import Live
from shim.draining import Draining
from shim.facing import Facing
from shim.fronts.endpoint import Endpoint
from shim.fronts.metadata import ResourceMetadata
from shim.fronts.open_streams import OpenStreams
from shim.fronts.routes import Routes
from shim.fronts.server import server_of
from shim.fronts.shares import Shares
from shim.hub.registry import load_dialects
from shim.ledger.sqlite import SqliteLedger
from shim.opening import listen, open_ledger, open_providers, open_sink, terms_of
from shim.reload import Reload
from shim.shadow.shadow import Shadow
from shim.standing import Stand, linked
from shim.steering import Steering
from shim.tasks.questions import Questions
from shim.tasks.room import Room
from shim.tasks.service import Tasks
from shim.upstreams.base import Upstream
from shim.upstreams.prober import Prober
from shim.upstreams.probing import Probed
from shim.wire.budget import Budget
from shim.wire.ids import IdMaker

log = structlog.get_logger("shim")


@dataclass(slots=True)
class App:
    """A running shim."""

    config: Config
    url: str
    admin_url: str | None
    endpoint: Endpoint
    tasks: Tasks
    stands: Mapping[str, Stand]
    """The upstreams by name."""
    ledger: SqliteLedger
    steering: Steering
    shadow: Shadow
    reload: Reload
    """Puts a new config in force. Raises ConfigError; then all is as it was."""

    @property
    def behind(self) -> Behind:
        """The speakers of the first upstream."""
        return next(iter(self.stands.values())).behind

    @property
    def prober(self) -> Prober:
        """The prober of the first upstream."""
        return next(iter(self.stands.values())).prober


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
        metrics = Metrics(method_names(dialects.values()))
        sink = open_sink(stack, config, instance)
        live = Live(config)
        in_force = live.as_config()
        ledger = await open_ledger(stack, in_force, clock, metrics, sink, keys)

        stands = {
            one.name: Stand(in_force, one, await linked(stack, in_force, one, ledger, clock), sink, clock)
            for one in config.upstream
        }
        room = Room(in_force, ledger, {}, clock, sink, Budget(lambda: in_force.limits.buffer_bytes))
        questions = Questions(room)
        shadow = Shadow(in_force, lambda name: stands[name].behind.main, tuple(stands), dialects, room)
        ids = IdMaker(epoch := await ledger.next_epoch())
        for one in stands.values():
            await one.speak(
                dialects,
                partial(
                    speakers, in_force, one.settings, dialects=dialects, link=one.link,
                    authority=one.authority, ids=ids, clock=clock, ledger=ledger,
                    events=shadow.ears(questions),
                ),
            )  # fmt: skip
            stack.push_async_callback(one.behind.close)
            one.link.budget, one.link.on_exchange = room.budget, partial(metrics.exchange, one.name)
        room.upstreams = _speakers(stands)
        tasks = Tasks(room, keys, questions, instance=instance, dialects=dialects)
        stack.push_async_callback(tasks.close)
        providers = open_providers(stack, clock, sink, metrics)
        terms = partial(
            terms_of, keys=keys, providers=providers, stands=stands, dialects=dialects, clock=clock
        )
        at_first, streams = terms(config), OpenStreams(in_force, clock)
        facing = Facing(in_force, tasks, dialects, ids, epoch, at_first.resolver, streams)
        for one in stands.values():
            one.fronts = facing.fronts(one)
        activity, traffic = Activity(), Traffic()
        metrics.watch(
            dropped=lambda: sink.dropped, under_way=lambda: activity.under_way, shadowed=shadow.counts,
            legacy_callers=lambda: traffic.legacy_callers, reached=sink.reached,
            buffered=lambda: room.budget.used,
        )  # fmt: skip
        metrics.parked.set_function(lambda: len(tasks.parked))
        routes = Routes(in_force, stands, dialects, ledger, tasks.origins)
        endpoint = Endpoint(
            in_force,
            terms=at_first,
            routes=routes,
            metadata=ResourceMetadata(in_force, stands),
            requests=RequestLog(sink, activity, metrics, traffic, Notices(clock)),
            shadow=shadow,
            shares=Shares(
                in_force, clock, frozenset(one.methods.get for one in dialects.values()), room.budget
            ),
        )
        steering = Steering(live, stands, ledger, traffic, activity, tasks.parked, sink, clock)
        reload = Reload(config, live, terms, sink, endpoint, stands)
        await tasks.start()
        sink.emit(InstanceStarted(version=__version__, config_digest=digest(config)))
        stack.callback(
            lambda: sink.emit(InstanceStopped(version=__version__, config_digest=digest(live.in_force)))
        )
        _tend(stands, facing)
        room.start(Draining(live, tasks, routes.idle).run(), "drain")
        await _sign_of_life(stack, room, Alive(ledger, activity, sink, shadow.tell))
        admin = Admin(in_force, metrics, ledger, stands, steering)
        server = server_of(
            endpoint.handle,
            in_force,
            sink.reached,
            handler_cancellation=True,
            max_field_size=config.limits.header_bytes,
        )
        url = await listen(stack, server, config.listen.host, config.listen.port, config, socket)
        admin_url = await _listen_for_admin(stack, admin, in_force, sink.reached)
        stack.push_async_callback(tasks.hand_back.all)
        stack.push_async_callback(streams.close)
        admin.ready = True
        stack.callback(admin.stopping)
        yield App(
            config, url + config.listen.path, admin_url, endpoint, tasks, stands, ledger, steering, shadow,
            reload,
        )  # fmt: skip


async def _listen_for_admin(
    stack: contextlib.AsyncExitStack, admin: Admin, config: Config, reached: Counter[str]
) -> str | None:
    """Serve the operator, and give the URL; None where the config says no. Raises StartError."""
    if not config.admin.enabled:
        return None
    server = server_of(admin.handle, config, reached)
    return await listen(stack, server, config.admin.host, config.admin.port, config)


def _speakers(stands: Mapping[str, Stand]) -> Mapping[tuple[str, str], Upstream]:
    """Give the speakers of all upstreams, by upstream and dialect."""
    return {key: one for stand in stands.values() for key, one in stand.behind.speakers.items()}


def _tend(stands: Mapping[str, Stand], facing: Facing) -> None:
    """Look after the upstreams: whether they can be reached, and what they speak."""
    start = facing.tasks.room.start
    for one in stands.values():
        start(one.look(), "health")
        if one.settings.dialect == "auto":
            one.link.on_doubt = one.prober.doubt
            one.prober.on_turn = partial(_turn, one, stands, facing)
            start(one.prober.run(), "probe")


def _turn(stand: Stand, stands: Mapping[str, Stand], facing: Facing, probed: Probed) -> None:
    """Serve a server by what it was found to speak now."""
    stand.turn(probed)
    facing.tasks.room.upstreams = _speakers(stands)
    stand.fronts = facing.fronts(stand)


async def _sign_of_life(stack: contextlib.AsyncExitStack, room: Room, alive: Alive) -> None:
    """Tell at once, every minute and at the end, so that a short run is covered too."""
    await alive.tell()
    stack.push_async_callback(alive.tell)
    room.start(alive.run(room.clock), "alive")
