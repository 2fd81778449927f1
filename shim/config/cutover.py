"""Settings of the way over to the new server and the new API: who goes where, copies of calls, the end."""

from collections.abc import Iterable
from datetime import date
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from shim.config.address import WebUrl
from shim.config.routing import parse_rule
from shim.config.section import Bytes, Count, Section, SomeMs


def _rule(text: str) -> str:
    parse_rule(text)
    return text


def _named(tools: str) -> str:
    if not tools.strip("*?"):
        raise ValueError("names every tool: name those whose calls do no harm")
    return tools


def _reason(reason: str) -> str:
    if not reason.strip():
        raise ValueError("say why the place is ignored")
    return reason


class Shadow(Section):
    """Copies of calls that go to another upstream too, so that what both answer can be compared (SHADOW)."""

    tools: tuple[Annotated[str, AfterValidator(_named)], ...] = Field(
        default=(), examples=[["search", "get_*"]]
    )
    """Tools, by name or glob, whose calls change nothing and may be made twice. Only what stands here is
    copied, whatever a server says of its tools; empty: nothing."""
    upstream: str | None = Field(default=None, examples=["new"])
    """Upstream that gets the copies of calls that went elsewhere. Not set: of two the other one."""
    percent: Annotated[float, Field(ge=0, le=100)] = 10.0
    """Share of those calls that is copied."""
    ignore: dict[Annotated[str, Field(min_length=1)], Annotated[str, AfterValidator(_reason)]] = Field(
        default_factory=dict, examples=[{"structuredContent.items[].price": "the old server rounds"}]
    )
    """Places that are not compared, with all below them, each with the reason: paths as
    `taskshim audit shadow` prints them, `*` for any one name."""
    queue: Count = 100
    """Calls that wait to be copied, and tasks that are waited for until they end, at most; more are dropped
    and counted."""
    concurrency: Count = 4
    """Copies that run at a time."""
    max_bytes: Bytes = 262_144
    """Bytes of a call's arguments and answer together; what is larger is not compared."""
    timeout_ms: SomeMs = 60_000
    """Milliseconds for a copy, a task's end included; then it is cancelled."""


class Cutover(Section):
    """Which upstream a new call goes to, and the end of the old API as its clients are told (SUNSET)."""

    default: str | None = Field(default=None, examples=["main"])
    """Upstream of new calls that no rule sends elsewhere. Not set: the first one."""
    rules: tuple[Annotated[str, AfterValidator(_rule)], ...] = ()
    """Where new calls go, the first rule that fits: "UPSTREAM [N%] [tool=GLOB] [caller=NAME] [client=GLOB]
    [era=legacy|modern] [fallback=UPSTREAM]". A percentage is of callers and stays with them: raising it only
    adds callers. Tasks and sessions stay with the upstream that made them; calls of a tool that a rule names
    follow it in a session too (CUTOVER-RULES)."""
    fallback: str = ""
    """Upstream that takes new calls while the default one cannot be reached (CUTOVER-FALLBACK). Empty: they
    fail. A rule names its own."""
    tools_age_ms: SomeMs = 60_000
    """Milliseconds for which it counts what an upstream's tools/list said, for calls of tools that it lacks
    and another one has (CUTOVER-TOOL)."""
    drain: tuple[str, ...] = ()
    """Upstreams whose legacy sessions end with 404 once they have no open task, so that their clients open
    new ones where the rules say."""
    sunset: date | None = Field(default=None, examples=[date(2027, 7, 28)])
    """Day on which the old API ends (its first moment, UTC): the Sunset header of legacy answers
    (RFC 8594)."""
    after_sunset: Literal["serve", "warn", "refuse"] = "serve"
    """What becomes of the old API's requests from that day on. "warn" serves them, and says so in the audit
    log and the operator's; "refuse" lets only be finished what was begun before (SUNSET)."""
    link: WebUrl | None = Field(default=None, examples=["https://example.org/migrate"])
    """Page that explains the change: the Link header, by its relations "deprecation" and "sunset"."""
    deprecation: date = date(2026, 7, 28)
    """Day since which the old API is deprecated: the Deprecation header (RFC 9745)."""
    shadow: Shadow = Shadow()

    def default_of(self, upstreams: Iterable[str]) -> str:
        """Give the upstream of new calls that no rule sends elsewhere."""
        return self.default or next(iter(upstreams))

    def unknown(self, upstreams: Iterable[str]) -> str | None:
        """Give an upstream that is named here and is none of these."""
        rules = [parse_rule(rule) for rule in self.rules]
        copied_to = self.shadow.upstream if self.shadow.tools else None
        named = {self.default, self.fallback, copied_to, *self.drain}
        named |= {rule.upstream for rule in rules} | {rule.fallback for rule in rules}
        return min(filter(None, named - {*upstreams}), default=None)
