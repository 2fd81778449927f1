"""Steering a cutover while it goes on: where new calls go, what is left where, what can be switched off."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from shim.audit.events import AuditSink, CutoverChanged
from shim.audit.traffic import MINUTES, Traffic
from shim.clock import Clock
from shim.config import Config
from shim.config.live import Live
from shim.config.routing import parse_rule
from shim.config.surface import Cutover
from shim.ledger.protocol import Ledger
from shim.standing import Stand

log = structlog.get_logger("shim")

_OPEN = ("working", "input_required")


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
    sink: AuditSink
    clock: Clock

    def change(self, wanted: Mapping[str, Any], by: str) -> None:
        """Put new `default`, `rules`, `drain` in force until the next start or SIGHUP. Raises ValueError."""
        old = self.live.in_force
        kept = {name: value for name, value in wanted.items() if name in {"default", "rules", "drain"}}
        cutover = Cutover.model_validate({**dict(old.cutover), **kept})
        self.live.renew(Config.model_validate({**dict(old), "cutover": cutover}))
        tell_cutover(self.sink, old.cutover, cutover, by)

    async def status(self) -> dict[str, Any]:
        """Tell where new calls go, what each upstream still has, and whether it can be switched off."""
        cutover, stats = self.live.in_force.cutover, await self.ledger.stats()
        default = cutover.default or next(iter(self.stands))
        all_requests = sum(self.traffic.of(name).requests for name in self.stands)
        upstreams = {}
        for name in self.stands:
            share, tasks = self.traffic.of(name), stats.tasks.get(name, {})
            left = Left(
                open_tasks=sum(tasks.get(state, 0) for state in _OPEN),
                oldest_open_ms=stats.oldest_open.get(name),
                sessions=stats.client_sessions.get(name, 0),
            )
            why = in_the_way(name, default, cutover.rules, left, self.clock.now_ms())
            upstreams[name] = {
                "requests": share.requests, "legacy_requests": share.legacy, "errors": share.errors,
                "share": round(share.requests / all_requests, 4) if all_requests else 0.0,
                "open_tasks": left.open_tasks, "oldest_open_ms": left.oldest_open_ms,
                "sessions": left.sessions, "drains": name in cutover.drain,
                "can_be_switched_off": not why, "because": why,
            }  # fmt: skip
        return {
            "default": default, "rules": list(cutover.rules), "drain": list(cutover.drain),
            "minutes": MINUTES, "upstreams": upstreams,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Left:
    """What an upstream still has to do."""

    open_tasks: int
    oldest_open_ms: int | None
    sessions: int


def in_the_way(name: str, default: str, rules: Sequence[str], left: Left, now_ms: int) -> list[str]:
    """Give the reasons why an upstream cannot be switched off; none where it can."""
    why = []
    parsed = [parse_rule(rule) for rule in rules]
    # a rule without any test, for everyone, takes what would come to the default
    caught = next((one for one in parsed if str(one) == one.upstream), None)
    reached = parsed if caught is None else parsed[: parsed.index(caught) + 1]
    if default == name and caught is None:
        why.append("new calls go to it by default")
    why += [
        f'new calls go to it by the rule "{one}"' for one in reached if one.upstream == name and one.percent
    ]
    if left.open_tasks:
        minutes = (now_ms - (now_ms if left.oldest_open_ms is None else left.oldest_open_ms)) // 60_000
        why.append(f"{left.open_tasks} open tasks, the oldest {minutes} minutes old")
    if left.sessions:
        why.append(f"{left.sessions} open sessions of legacy clients")
    return why
