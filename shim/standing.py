"""One upstream with all that belongs to it: the way there, who asks, what it speaks, the fronts before it."""

import contextlib
from collections.abc import Callable, Mapping

import structlog
from aiohttp import web

from shim.audit.events import AuditSink
from shim.audit.trace import Trace
from shim.behind import Behind, Made, Speaks, configured, found
from shim.callers.caller import Caller
from shim.callers.vouch import CredentialStore, VouchBook
from shim.clock import Clock
from shim.config import Config, service_token
from shim.config.service import UpstreamConfig
from shim.fronts.routes import Front
from shim.hub.dialect import Dialect
from shim.ledger.protocol import Ledger
from shim.upstreams.authority import Authority
from shim.upstreams.base import Context
from shim.upstreams.health import Health
from shim.upstreams.http import Limits, Link, open_client
from shim.upstreams.offering import Offering
from shim.upstreams.prober import Prober
from shim.upstreams.probing import Probed, probe
from shim.upstreams.stdio.serving import BRIDGE_URL, CallerAuthority, bridge_of, serving
from shim.wire.era import Era
from shim.wire.headers import passed_on

log = structlog.get_logger("shim")

_FORWARDED = ("traceparent", "tracestate", "baggage")


def link_limits(config: Config, settings: UpstreamConfig) -> Limits:
    """Give the bounds of exchanges with an upstream."""
    return Limits(
        frame_bytes=config.limits.frame_bytes,
        connect_timeout_ms=settings.connect_timeout_ms,
        answer_timeout_ms=settings.answer_timeout_ms,
    )


class Stand:
    """One upstream. Implements `Standing`."""

    def __init__(
        self, config: Config, settings: UpstreamConfig, link: Link, sink: AuditSink, clock: Clock
    ) -> None:
        self.name = settings.name
        self.settings = settings
        self.forwarded = _forwarded(settings)
        """The request headers that are passed on to it (HEADERS)."""
        self.link = link
        self.judged = settings.credentials == "pass"
        self.authority = (CallerAuthority if settings.command else Authority)(
            settings.credentials,
            service_token(settings),
            settings.fixed_headers(),
            vouches=VouchBook(clock, config.identity.vouch_ms, judged=self.judged),
            held=CredentialStore(clock, config.identity.credential_hold_ms),
        )
        self.prober = Prober(
            settings.name,
            lambda signed: probe(link, sink, settings.name, signed or self.authority.own()),
            clock,
            again_ms=settings.probe_again_ms,
        )
        self.health = Health(clock)
        link.on_change = self._changed
        link.on_silence = self.health.doubt
        self._offering = Offering(config, clock)
        self._sink = sink
        self.behind: Behind
        self.fronts: Mapping[Era, Front] = {}

    @property
    def over_http(self) -> bool:
        """Whether it is an address, and not a command."""
        return not self.settings.command

    async def speak(self, dialects: Mapping[str, Dialect], make: Callable[[Speaks], Made]) -> None:
        """Make the speakers of what it was configured or is found to speak (ERA-PROBE)."""
        if self.settings.dialect != "auto":
            self.behind = Behind(configured(dialects[self.settings.dialect]), make)
            return
        probed = await self.prober.probe()
        if probed.era is None:
            log.warning("the upstream is taken for a legacy one until it is known", upstream=self.name)
        self.behind = Behind(found(probed), make)

    async def learn(self, ctx: Context) -> None:
        """Ask what it speaks as part of a caller's request, where it would not tell the shim (ERA-PROBE)."""
        if self.prober.denied and self.judged and ctx.caller.credential is not None:
            await self.prober.learn(ctx.caller.credential.fingerprint, self.authority.headers(ctx))

    @property
    def up(self) -> bool:
        """Whether it can be reached, as far as that is known."""
        return self.health.up

    async def look(self) -> None:
        """Look for it while it cannot be reached, until the shim stops."""
        await self.health.run(self.link, self.authority.own, lambda: self.settings.recheck_ms)

    async def has_tool(self, http: web.BaseRequest, caller: Caller, tool: str) -> bool | None:
        """Tell whether it lists a tool; None where it cannot be asked (CUTOVER-TOOL)."""
        if self._offering.shows(tool):
            return True
        trace = Trace.background(self._sink, upstream=self.name)
        ctx = Context(caller=caller, trace=trace, headers=passed_on(http.headers, self.forwarded))
        return await self._offering.has(self.behind.main, ctx, tool)

    def _changed(self, up: bool, evidence: str) -> None:  # noqa: FBT001 - what a link says
        name = "upstream.up" if up else "upstream.down"
        Trace.background(self._sink, upstream=self.name).event(name, evidence=evidence)
        self.health.changed(up=up, evidence=evidence)
        if up:
            log.info("the upstream can be reached again", upstream=self.name)
        else:
            log.warning("the upstream cannot be reached", upstream=self.name, evidence=evidence)
        if up:  # what comes back may be another version
            self.link.doubt("it came back")

    def turn(self, probed: Probed) -> None:
        """Take it that it speaks something else now; the fronts are the caller's to make anew."""
        self.behind.turn(found(probed))

    def renew(self, config: Config, settings: UpstreamConfig, token: str | None) -> None:
        """Take up a new config and the service's token, which was read already."""
        self.settings, self.forwarded = settings, _forwarded(settings)
        self.link.limits = link_limits(config, settings)
        self.behind.renew(config)
        self.authority.sign(token, settings.fixed_headers())
        self.authority.vouches.vouch_ms = config.identity.vouch_ms
        self.authority.held.hold_ms = config.identity.credential_hold_ms


def all_judged(stands: Mapping[str, Stand]) -> bool:
    """Tell whether each upstream sees the callers' own credentials (OWN-VOUCH)."""
    return all(one.judged for one in stands.values())


def _forwarded(settings: UpstreamConfig) -> tuple[str, ...]:
    return (*_FORWARDED, *settings.forward_headers)


async def linked(
    stack: contextlib.AsyncExitStack, config: Config, settings: UpstreamConfig, ledger: Ledger, clock: Clock
) -> Link:
    """Give the way to an upstream."""
    limits = link_limits(config, settings)
    bridge = bridge_of(config, settings, ledger, clock) if settings.command else None
    socket = await stack.enter_async_context(serving(bridge)) if bridge is not None else None
    client = open_client(settings.url or BRIDGE_URL, limits, socket)
    stack.push_async_callback(client.close)
    link = Link(client, limits)
    link.on_drop = None if bridge is None else bridge.drop
    return link
