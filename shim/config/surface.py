"""Settings of what faces the clients and the operator: addresses, eras, the end of the old API, logs."""

from collections.abc import Iterable
from datetime import date
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from shim.config.routing import parse_rule
from shim.config.section import Bytes, Count, Port, Section, SomeMs

PINNED_PATHS = ("/legacy", "/modern", "/create-status")
"""Served beside `listen.path`, each for one kind of client."""


def web_url(url: str) -> str:
    """Give an address that can be served from or sent to as it is. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or password")
    if parts.fragment:
        raise ValueError("must not have a #fragment")
    return url


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is this machine's own only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _origin(origin: str) -> str:
    parts = urlsplit(origin)
    if parts.scheme and parts.netloc and not parts.path.strip("/") and "*" not in origin:
        return f"{parts.scheme}://{parts.netloc}".lower()
    raise ValueError('must be scheme://host or scheme://host:port, as a browser sends it; "*" is not offered')


def _endpoint(path: str) -> str:
    if not path.startswith("/") or "?" in path or (path != "/" and path.endswith("/")):
        raise ValueError('must begin with "/", without a query and without "/" at its end')
    if path in PINNED_PATHS:
        raise ValueError(f"must not be one of {', '.join(PINNED_PATHS)}: each is served for its own clients")
    return path


WebUrl = Annotated[str, AfterValidator(web_url)]
Origin = Annotated[str, AfterValidator(_origin)]


class Listen(Section):
    """Where clients connect."""

    host: str = "127.0.0.1"
    """Address to listen on. On a loopback address the Host header of requests is checked (ORIGIN)."""
    port: Port = 8765
    """TCP port; 0 takes any free one."""
    path: Annotated[str, AfterValidator(_endpoint)] = "/mcp"
    """Path of the endpoint that tells the eras apart itself (ERA-DETECT).
    /legacy, /modern and /create-status are served too, each for one kind of client."""
    public_url: WebUrl | None = Field(default=None, examples=["https://mcp.example.org/mcp"])
    """URL under which clients know `path`. The protected resource metadata names it, and a 401 or 403 says
    where that is to be had (RFC 9728); its host is one of `allowed_hosts`."""
    allowed_origins: tuple[Origin, ...] = ()
    """Browser origins that may call, as scheme://host:port. Any other Origin header gets a 403 (ORIGIN)."""
    allowed_hosts: tuple[str, ...] = ()
    """Host headers that are accepted, as host or host:port. Empty: on loopback only loopback names,
    elsewhere all (ORIGIN)."""

    def public_urls(self) -> dict[str, str]:
        """Give the URL under which clients know each served path; none where `public_url` is not set."""
        if self.public_url is None:
            return {}
        parts = urlsplit(self.public_url)
        before = f"{parts.scheme}://{parts.netloc}"
        if parts.path.endswith(self.path):
            before += parts.path.removesuffix(self.path)
        return {self.path: self.public_url} | {path: before + path for path in PINNED_PATHS}


class Modern(Section):
    """How clients of 2026-07-28 are served."""

    create_result: Literal["flat", "both"] = "flat"
    """Shape of a CreateTaskResult: the published flat one, or "both" with a nested `task` besides (KEYS)."""
    keepalive_ms: SomeMs = 15_000
    """Milliseconds between comment lines on the stream of a subscription (ML-LISTEN)."""
    missing_mcp_name: Literal["allow", "reject"] = "allow"
    """Whether a tasks/* request may leave out the Mcp-Name header; a wrong one is always refused
    (VALIDATE)."""


class Legacy(Section):
    """How clients of the old API are served."""

    dialect: str = "experimental"
    """Dialect of a client of which nothing else tells it (CS-DETECT)."""
    page_size: Annotated[int, Field(gt=0, le=1000)] = 50
    """Tasks on a page of tasks/list (LL-LIST)."""
    sessionless_kinds: tuple[Literal["elicitation", "sampling", "roots"], ...] = ("elicitation",)
    """Question kinds that a client without a session is taken to answer (CS-INPUT)."""
    keepalive_ms: SomeMs = 15_000
    """Milliseconds between comment lines on a quiet stream (LM-RESULT)."""
    replay_ms: SomeMs = 60_000
    """Milliseconds that a call whose stream broke, and a session's own stream, go on without their client,
    and that what they carried is kept for a GET with Last-Event-ID (LM-RESUME)."""
    redeliver_after_ms: SomeMs = 30_000
    """Milliseconds without an answer after which a question is sent once more over a new stream
    (LM-INPUT)."""
    tool_error_status: Literal["failed", "completed"] = "failed"
    """State of a task whose tool reported an error: "failed" as the 2025-11-25 text has it, or "completed"
    for clients that want its content (LM-GET)."""


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


class Audit(Section):
    """The audit log: what the migration is steered by."""

    path: Path | None = Field(default=None, examples=["audit.jsonl"])
    """File of JSON lines, made with mode 0600. Not set: no audit log. A full file is put aside under a
    name with its time, so that audit*.jsonl names all of them."""
    max_bytes: Annotated[int, Field(ge=65_536)] = 268_435_456
    """Bytes after which a new file is begun."""
    daily: bool = True
    """Whether each day (UTC) begins a new file."""
    queue: Count = 100_000
    """Events that wait for the disk at most; more are dropped and counted (audit.dropped)."""
    key_file: Path | None = Field(default=None, examples=["taskshim-audit.key"])
    """File of keys that chain the lines, so that `taskshim audit verify --key-file` finds a line that was
    changed, removed, added or moved; made once with mode 0600. Not set: lines are not chained. The newest
    key, which stands first, signs from the next start on; the old ones behind it still verify."""


class Admin(Section):
    """The operator's endpoints: /healthz, /readyz, /metrics, /upstreams."""

    enabled: bool = True
    """Whether they are served."""
    host: str = "127.0.0.1"
    """Address they listen on; looking asks for no credential, so keep it private."""
    port: Port = 8766
    """TCP port; 0 takes any free one."""
    token: SecretStr | None = Field(default=None, min_length=16, examples=["sixteen or more characters"])
    """Bearer token of who may change the cutover there; not set: nobody."""


class Log(Section):
    """The operator log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is written."""
    format: Literal["auto", "console", "json"] = "auto"
    """"console" for people, "json" for machines; "auto": console on a terminal, else json."""


class Limits(Section):
    """Bounds of everything that can grow, each with the answer a client gets when it is reached."""

    body_bytes: Bytes = 4_194_304
    """Bytes of a request body; more is a 413 (VALIDATE)."""
    frame_bytes: Bytes = 4_194_304
    """Bytes of an upstream's answer or stream frame; more fails that request alone (SSE)."""
    header_bytes: Annotated[int, Field(ge=8192)] = 65_536
    """Bytes of a request's header field; more is a 400."""
    concurrent_requests: Count = 20_000
    """Requests under way at a time, open streams included; more is a 429 with Retry-After."""
    requests_per_caller: Count = 2000
    """Requests of one caller under way at a time, open streams and waiting tasks/result included; more is a
    429. Those that nothing tells apart count for themselves only."""
    polls_per_second: Count = 1000
    """Looks at single tasks, tasks/get and the like, of one caller in a second, on average; beyond that
    and poll_burst they are a 429."""
    poll_burst: Count = 10_000
    """Such looks that a caller may make at once when it made none for a while."""
    buffer_bytes: Bytes = 268_435_456
    """Bytes of all requests, upstream answers, questions of calls and kept or queued messages that are in
    memory at a time. At the limit a request is a 503, as is a call that asks something (it is ended
    upstream), an upstream's answer fails its request alone, what is kept for a repeated retry goes, the
    oldest kept stream cannot be taken up, and a subscription or session's stream that lags is
    disconnected."""
    sessions: Count = 20_000
    """Open sessions of all legacy clients; one that was unused for sessions.idle_ms and has no open task
    makes way for another, else that is a 503."""
    sessions_per_caller: Count = 256
    """Open sessions of one caller's legacy clients; one that was unused for sessions.idle_ms and has no
    open task makes way for another, else that is a 429."""
    open_tasks_per_caller: Count = 1000
    """Tasks of one caller that have not ended; more is a 429."""
    questions_per_task: Count = 64
    """Questions one task or call may ask; more are refused upstream (ML-INPUT, ML-MRTR)."""
    parked_calls_per_caller: Count = 32
    """Calls of one caller that wait for their client's answers; at the limit the call is ended upstream and
    the client gets a 429 (ML-MRTR)."""
    parked_calls: Count = 1000
    """Such calls in all; at the limit the call is ended upstream and the client gets a 503."""
    parked_ms: SomeMs = 300_000
    """Milliseconds such a call waits for the answers, and its requestState counts; then it is ended
    upstream."""
    streams_per_caller: Count = 64
    """Open subscriptions of one caller's modern clients; more is a 429 (ML-LISTEN)."""
    subscriptions_per_stream: Count = 1000
    """Tasks and resources that one subscription, or a legacy session of the shim's, may name; more is a
    -32602 (ML-LISTEN, LM-LOCAL)."""
    queue_per_stream: Count = 1000
    """Announcements that wait for the client of a subscription, or of a legacy session that the shim serves;
    with more it is disconnected (ML-LISTEN, LM-STREAM)."""
    replay_events: Count = 1000
    """Messages kept of one stream; of more the oldest are not sent again (LM-RESUME)."""
    replay_bytes: Bytes = 16_777_216
    """Bytes kept of all streams; at the limit the oldest stream cannot be taken up (LM-RESUME)."""
    slow_reader_ms: SomeMs = 30_000
    """Milliseconds a client may not read at all before it is disconnected."""
    kept_bytes: Bytes = 268_435_456
    """Bytes of results, questions and answers kept in memory where ledger.store_results is false. At the
    limit the oldest results make way, first those that a server can give again, and one that cannot be had
    any more is a -32603; a question is refused upstream, an answer to one is a 503 (DUR-8)."""
    slow_sender_ms: SomeMs = 60_000
    """Milliseconds for a request's body to come, then it is a 408; and for the first request of a
    connection, which is closed without one."""
    tools: Count = 10_000
    """Tools of one upstream that are looked at (ML-CREATE)."""
    pages: Count = 100
    """Pages of one upstream's tools/list that are read (ML-CREATE)."""
    shutdown_ms: SomeMs = 10_000
    """Milliseconds from SIGTERM to the exit at most."""
