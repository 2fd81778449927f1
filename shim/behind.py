"""What stands behind the shim: the speakers of one server, one for each era that it speaks (ERA-PROBE)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shim.clock import Clock
from shim.config import Config
from shim.config.service import UpstreamConfig
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.ledger.protocol import Ledger
from shim.upstreams.authority import Authority
from shim.upstreams.base import SessionEvents
from shim.upstreams.http import Link
from shim.upstreams.legacy.pool import PoolLimits
from shim.upstreams.legacy.session import Parts as LegacyParts
from shim.upstreams.legacy.speaker import LegacyUpstream
from shim.upstreams.legacy.tools import Catalogs
from shim.upstreams.modern.exchange import Parts as ModernParts
from shim.upstreams.modern.speaker import ModernUpstream
from shim.upstreams.probing import Probed
from shim.wire.envelope import offers_task_calls
from shim.wire.era import Era
from shim.wire.ids import IdMaker
from shim.wire.modern import has_tasks

_EXPERIMENTAL = "experimental"
SEP_2663 = "sep-2663"


@dataclass(frozen=True, slots=True)
class Speaks:
    """The dialects a server is spoken to in, by era; at least one is there."""

    legacy: str | None
    modern: str | None
    hosts: bool
    """True where the shim itself is the server of legacy clients (LM), and does not relay them (LL)."""


def configured(dialect: Dialect) -> Speaks:
    """Take the operator's word for the one dialect a server speaks."""
    if dialect.era == "modern":
        return Speaks(None, dialect.name, hosts=True)
    return Speaks(dialect.name, None, hosts=False)


def found(probed: Probed) -> Speaks:
    """Tell by what a probe found; what proves nothing is taken for legacy.

    Legacy clients of a server of both eras are relayed if its legacy side has tasks, else hosted if its
    modern side has them, else relayed.
    """
    if probed.era is not Era.MODERN:
        return Speaks(_EXPERIMENTAL, None, hosts=False)
    if probed.legacy_too is None:
        return Speaks(None, SEP_2663, hosts=True)
    hosts = has_tasks(probed.init) and not offers_task_calls(rawjson.join(probed.legacy_too))
    return Speaks(_EXPERIMENTAL, SEP_2663, hosts=hosts)


Made = tuple[LegacyUpstream | None, ModernUpstream | None]


class Behind:
    """The speakers of one server; `make` makes those of what it speaks."""

    def __init__(self, speaks: Speaks, make: Callable[[Speaks], Made]) -> None:
        self._make = make
        self.speaks = speaks
        self.legacy, self.modern = make(speaks)

    def turn(self, speaks: Speaks) -> None:
        """Take it that the server speaks something else now; tasks of before keep their speaker."""
        legacy, modern = self._make(speaks)
        self.speaks = speaks
        self.legacy, self.modern = self.legacy or legacy, self.modern or modern

    @property
    def speakers(self) -> Mapping[tuple[str, str], LegacyUpstream | ModernUpstream]:
        """Give them by upstream and dialect, as task rows name them."""
        both = (self.legacy, self.modern)
        return {(one.name, one.dialect.name): one for one in both if one is not None}

    @property
    def main(self) -> LegacyUpstream | ModernUpstream:
        """Give the one for modern clients: of the newest era that the server speaks."""
        main = self.modern if self.speaks.modern is not None else self.legacy
        assert main is not None  # noqa: S101 - a server speaks something, or it is taken for legacy
        return main

    @property
    def relayed(self) -> LegacyUpstream | None:
        """Give the one that legacy clients are relayed to; None where the shim hosts them."""
        return None if self.speaks.hosts else self.legacy

    @property
    def open_sessions(self) -> int:
        """Count the sessions that the shim has open upstream."""
        return len(self.legacy.pool) if self.legacy is not None else 0

    def renew(self, config: Config) -> None:
        """Take up the bounds of a new config."""
        if self.legacy is not None:
            self.legacy.pool.limits = pool_limits(config)

    async def close(self) -> None:
        """Close the shim's own streams and sessions."""
        for speaker in self.speakers.values():
            await speaker.close()


def pool_limits(config: Config) -> PoolLimits:
    """Give the bounds of upstream sessions."""
    return PoolLimits(
        config.sessions.per_caller, config.sessions.total, config.tasks.tasks_per_session,
        config.sessions.idle_ms, config.sessions.spares,
    )  # fmt: skip


def speakers(
    config: Config, settings: UpstreamConfig, speaks: Speaks, *, dialects: Mapping[str, Dialect], link: Link,
    authority: Authority, ids: IdMaker, clock: Clock, ledger: Ledger, events: SessionEvents,
) -> Made:  # fmt: skip
    """Make the speakers of one server."""
    legacy = modern = None
    if speaks.legacy is not None:
        dialect = dialects[speaks.legacy]
        catalogs = Catalogs(
            settings.tool_support, pages=config.limits.pages, tools=config.limits.tools, clock=clock
        )
        legacy = LegacyUpstream(
            settings.name, dialect, LegacyParts(link, ids, authority, events, clock, dialect), ledger,
            pool_limits(config), catalogs, sessions=settings.sessions,
        )  # fmt: skip
    if speaks.modern is not None:
        parts = ModernParts(link, ids, authority, clock)
        modern = ModernUpstream(
            settings.name,
            dialects[speaks.modern],
            parts,
            overrides=settings.tool_support,
            pages=config.limits.pages,
        )
    return legacy, modern
