"""The fronts of a server: one for each era of clients, by what the server speaks."""

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field

from shim.behind import SEP_2663
from shim.callers.resolve import Resolver
from shim.callers.vouch import VouchBook
from shim.config import Config
from shim.fronts.detect import Detector
from shim.fronts.hosted.asking import Asking
from shim.fronts.hosted.calls import Calls
from shim.fronts.hosted.feed import Feed
from shim.fronts.hosted.front import HostedFront, Methods
from shim.fronts.hosted.listening import Listening
from shim.fronts.hosted.local import LocalMethods
from shim.fronts.hosted.onwards import Onwards
from shim.fronts.hosted.replay import Replays
from shim.fronts.hosted.sessions import HostedSessions
from shim.fronts.hosted.streams import EventIds, Streams
from shim.fronts.hosted.under_way import UnderWay
from shim.fronts.hosted.verbs import HostedVerbs
from shim.fronts.keyed import LegacyOnce
from shim.fronts.legacy import LegacyFront
from shim.fronts.legacy_admission import Admission
from shim.fronts.legacy_tasks import LegacyTasks
from shim.fronts.legacy_verbs import Verbs
from shim.fronts.modern import ModernFront
from shim.fronts.modern_relay import ModernRelay
from shim.fronts.open_streams import OpenStreams
from shim.fronts.relay import MODERN_HEADERS, Relay
from shim.fronts.routes import Front
from shim.fronts.sessions import ClientSessions
from shim.fronts.subscriptions import Subscriptions
from shim.fronts.vouching import Vouching
from shim.hub.dialect import Dialect
from shim.standing import Stand
from shim.tasks.service import Tasks
from shim.upstreams.base import Upstream
from shim.upstreams.legacy.speaker import LegacyUpstream
from shim.upstreams.modern.speaker import ModernUpstream
from shim.wire.crossing import ToLegacy, ToModern
from shim.wire.era import Era
from shim.wire.ids import IdMaker


@dataclass(slots=True)
class Facing:
    """Makes fronts of the parts that all of them share, also over a change of what the server speaks."""

    config: Config
    tasks: Tasks
    dialects: Mapping[str, Dialect]
    ids: IdMaker
    epoch: InitVar[int]
    resolver: Resolver
    streams: OpenStreams
    asking: Asking = field(init=False)
    _made: dict[tuple[str, Upstream], Front] = field(init=False, default_factory=dict)
    """What was put before a speaker, by its kind: it knows what is open, and what clients come back to."""

    def __post_init__(self, epoch: int) -> None:
        self.asking = Asking(
            self.config, self.tasks, self.ids, Streams(EventIds(epoch), self.tasks.room.budget)
        )

    def fronts(self, stand: Stand) -> Mapping[Era, Front]:
        """Put a front for each era before the speaker that serves it: the one there was, if it had one.

        So a server that turns back finds its clients' streams and calls as they were (ERA-PROBE).
        """
        main, relayed = stand.behind.main, stand.behind.relayed
        vouches = stand.authority.vouches
        if relayed is None:
            legacy = self._once("hosted", main, lambda: self._hosted(main, vouches))
        else:
            legacy = self._once("relayed", relayed, lambda: self._relayed(relayed, vouches))
        return {
            Era.MODERN: self._once("modern", main, lambda: self._modern(main, vouches)),
            Era.LEGACY: legacy,
        }

    def _once(self, kind: str, upstream: Upstream, make: Callable[[], Front]) -> Front:
        if (kind, upstream) not in self._made:
            self._made[kind, upstream] = make()
        return self._made[kind, upstream]

    def _modern(self, upstream: Upstream, vouches: VouchBook) -> Front:
        """Give the front that serves modern clients by the hub (ML), or passes them through (MM)."""
        config, tasks, vouching = self.config, self.tasks, Vouching(vouches, upstream)
        dialect = self.dialects[SEP_2663]
        subscriptions = Subscriptions(config, upstream, tasks, dialect, vouching, self.streams)
        if not isinstance(upstream, ModernUpstream):
            return ModernFront(config, upstream, tasks, dialect, vouching, ToLegacy(), subscriptions)
        hub = ModernFront(config, upstream, tasks, dialect, vouching, ToModern(), subscriptions)
        if upstream.dialect.name != dialect.name:
            return hub  # a site's own table: its tasks are translated
        parts = upstream.parts
        relay = Relay(parts.link, parts.authority, MODERN_HEADERS)
        return ModernRelay(config, hub, relay, tasks, vouching, self.streams)

    def _admission(self, upstream: Upstream, vouches: VouchBook) -> Admission:
        """Give what legacy clients of a server pass through, whichever front is theirs."""
        ledger, clock = self.tasks.room.ledger, self.tasks.room.clock
        return Admission(
            ClientSessions(self.config, ledger, upstream, clock, self.resolver),
            Detector(self.config, self.dialects, ledger),
            Vouching(vouches, upstream),
        )

    def _relayed(self, upstream: LegacyUpstream, vouches: VouchBook) -> Front:
        """Give the front that passes legacy clients through (LL)."""
        config, tasks = self.config, self.tasks
        admission = self._admission(upstream, vouches)
        relay = Relay(upstream.parts.link, upstream.parts.authority)
        hub = Verbs(config, upstream, tasks, admission.vouching)
        of_tasks = LegacyTasks(config, upstream, relay, tasks, hub, admission.detector, self.asking)
        return LegacyFront(upstream, admission, relay, of_tasks, self.streams)

    def _hosted(self, upstream: Upstream, vouches: VouchBook) -> Front:
        """Give the front that is itself the server of legacy clients (LM)."""
        config, tasks, asking = self.config, self.tasks, self.asking
        ledger, clock = tasks.room.ledger, tasks.room.clock
        admission = self._admission(upstream, vouches)
        sessions, hosted = admission.sessions, HostedSessions(config, ledger, admission.sessions)
        replays = Replays(config, tasks.room, asking.streams.ids)
        return HostedFront(
            upstream,
            admission,
            Methods(
                HostedVerbs(Verbs(config, upstream, tasks, admission.vouching), asking),
                LocalMethods(config, upstream, sessions, hosted, asking.streams),
                Onwards(config, upstream, admission.detector, Calls(config, upstream, tasks, asking)),
            ),
            asking=asking,
            feed=Feed(
                config, tasks, asking, Listening(config, upstream, ledger, clock), replays, self.streams
            ),
            once=LegacyOnce(tasks.idempotency, admission.vouching),
            under_way=UnderWay(upstream.name, replays),
        )
