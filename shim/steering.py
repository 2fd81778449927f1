"""Steering a cutover while it goes on: where new calls go, what is left where, what can be switched off."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from shim.audit.activity import Activity
from shim.audit.counted import counted
from shim.audit.events import AuditSink, CutoverChanged
from shim.audit.traffic import MINUTES, Traffic
from shim.clock import Clock, duration
from shim.config import Config
from shim.config.cutover import Cutover
from shim.config.live import Live
from shim.config.routing import parse_rule
from shim.ledger.protocol import Ledger
from shim.standing import Stand
from shim.tasks.parked import ParkedCalls

log = structlog.get_logger("shim")

_OPEN = ("working", "input_required")
_STEERED = frozenset(("default", "rules", "drain"))


def tell_cutover(sink: AuditSink, old: Cutover, new: Cutover, by: str) -> None:
    """Write down that new calls go elsewhere than before, and who wanted it."""
    before, after = (old.default, old.rules, old.drain), (new.default, new.rules, new.drain)
    if before != after:
        sink.emit(CutoverChanged(default=new.default, rules=new.rules, drain=new.drain, by=by))
        log.info("the cutover changed", default=new.default, rules=new.rules, drain=new.drain, by=by)


@dataclass(frozen=True, slots=True)
class Steering:
    """Shows and changes a running cutover."""

    live: Live
    stands: Mapping[str, Stand]
    ledger: Ledger
    traffic: Traffic
    activity: Activity
    parked: ParkedCalls
    sink: AuditSink
    clock: Clock

    def change(self, wanted: Mapping[str, Any], by: str) -> None:
        """Put new `default`, `rules`, `drain` in force until the next start or SIGHUP. Raises ValueError."""
        old = self.live.in_force
        kept = {name: value for name, value in wanted.items() if name in _STEERED}
        if unknown := wanted.keys() - _STEERED - {"by"}:
            raise ValueError(f"{min(unknown)}: expected {', '.join(sorted(_STEERED))} or by")
        cutover = Cutover.model_validate({**dict(old.cutover), **kept})
        if (missing := cutover.unknown(self.stands)) is not None:
            raise ValueError(f"no upstream is called {missing!r}; there are {', '.join(self.stands)}")
        self.live.renew(Config.model_validate({**dict(old), "cutover": cutover}))
        tell_cutover(self.sink, old.cutover, cutover, by)

    async def status(self) -> dict[str, Any]:
        """Tell where new calls go, what each upstream still has, and whether it can be switched off."""
        cutover = self.live.in_force.cutover
        # before the tasks are counted: a call that ends meanwhile is in one of the two
        under_way = {name: self.activity.at(name) for name in self.stands}
        parked = {name: self.parked.at(name) for name in self.stands}
        stats = await self.ledger.stats()
        default = cutover.default_of(self.stands)
        all_requests = sum(self.traffic.of(name).requests for name in self.stands)
        upstreams = {}
        for name, stand in self.stands.items():
            share, tasks = self.traffic.of(name), stats.tasks.get(name, {})
            left = Left(
                open_tasks=sum(tasks.get(state, 0) for state in _OPEN),
                oldest_open_ms=stats.oldest_open.get(name),
                sessions=stats.client_sessions.get(name, 0),
                under_way=under_way[name],
                parked=parked[name],
                alone=share.alone,
            )
            why = in_the_way(name, default, cutover.rules, left, self.clock.now_ms())
            upstreams[name] = {
                "health": stand.health.told(),
                "requests": share.requests, "legacy_requests": share.legacy, "errors": share.errors,
                "share": round(share.requests / all_requests, 4) if all_requests else 0.0,
                "open_tasks": left.open_tasks, "oldest_open_ms": left.oldest_open_ms,
                "sessions": left.sessions, "under_way": left.under_way, "parked_calls": left.parked,
                "calls_of_own_tools": left.alone, "drains": name in cutover.drain,
                "can_be_switched_off": not why, "because": why,
            }  # fmt: skip
        return {
            "default": default, "fallback": cutover.fallback or None, "rules": list(cutover.rules),
            "drain": list(cutover.drain),
            "sunset": None if cutover.sunset is None else str(cutover.sunset),
            "after_sunset": cutover.after_sunset, "now_ms": self.clock.now_ms(),
            "minutes": MINUTES, "upstreams": upstreams,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Left:
    """What an upstream still has to do."""

    open_tasks: int = 0
    oldest_open_ms: int | None = None
    sessions: int = 0
    under_way: int = 0
    parked: int = 0
    alone: int = 0
    """Calls of the last minutes for tools that it alone has."""


def in_the_way(name: str, default: str, rules: Sequence[str], left: Left, now_ms: int) -> list[str]:
    """Give the reasons why an upstream cannot be switched off; none where it can."""
    why = []
    parsed = [parse_rule(rule) for rule in rules]
    caught = next((number for number, one in enumerate(parsed) if one.for_all), None)
    if default == name and caught is None:
        why.append("new calls go to it by default")
    reached = parsed if caught is None else parsed[: caught + 1]
    why += [
        f'new calls go to it by the rule "{one}"' for one in reached if one.upstream == name and one.percent
    ]
    if left.open_tasks:
        since_ms = now_ms if left.oldest_open_ms is None else left.oldest_open_ms
        why.append(f"{counted(left.open_tasks, 'open task')}, the oldest {duration(now_ms - since_ms)} old")
    if left.parked:
        why.append(f"{counted(left.parked, 'call that waits', 'calls that wait')} for answers")
    if left.under_way:
        why.append(f"{counted(left.under_way, 'request')} under way")
    if left.sessions:
        why.append(f"{counted(left.sessions, 'open session')} of legacy clients")
    if left.alone:
        why.append(f"{counted(left.alone, 'call')} of tools that it alone has, in the last {MINUTES} minutes")
    return why
