"""Settings of what stands behind the endpoint: upstreams, tasks, sessions, the ledger."""

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, SecretStr, model_validator

from shim.config.address import web_url
from shim.config.section import Count, HeaderName, Ms, SecretLine, Section, SomeMs


def _address(url: str) -> str:
    return web_url(url) if url else url


EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class UpstreamConfig(Section):
    """A server to stand in front of. New calls go to the first one."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "main"
    """Name in logs and in the ledger: tasks belong to it, so keep it when the URL changes."""
    url: Annotated[str, AfterValidator(_address)] = Field(default="", examples=["http://127.0.0.1:3000/mcp"])
    """Address of its MCP endpoint."""
    command: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """The server as a command that speaks on standard input and output, in place of url, as
    ["python", "server.py"]. It runs once for each legacy session and for each caller of a modern one."""
    env: dict[EnvName, SecretStr] = Field(default_factory=dict)
    """Environment of the command; of the shim's own it has HOME, PATH, USER, LANG and the like only."""
    cwd: Path | None = Field(default=None, examples=["/srv/server"])
    """Working directory of the command; the shim's own where it is not set."""
    dialect: str = "auto"
    """Tasks API it speaks: "auto" to probe (ERA-PROBE), or the name of a dialect. The four-state API is
    never guessed: say "create-status" (CS-DETECT)."""
    credentials: Literal["pass", "service", "none"] = "pass"
    """What it is called with: the caller's own credential, the shim's service token, or none
    (OWN-CREDENTIAL)."""
    service_token: SecretLine | None = Field(default=None, examples=["..."])
    """Bearer token for credentials = "service"."""
    service_token_file: Path | None = Field(default=None, examples=["/run/secrets/upstream-token"])
    """File that holds that token instead; read at start and at SIGHUP."""
    headers: dict[HeaderName, SecretLine] = Field(default_factory=dict)
    """Headers that every request to it carries, by name."""
    tool_support: dict[str, Literal["required", "optional", "forbidden"]] = Field(default_factory=dict)
    """Task support of tools by glob, over what the server lists; the first glob that fits counts
    (ML-CREATE)."""
    connect_timeout_ms: SomeMs = 5000
    """Milliseconds to connect."""
    answer_timeout_ms: SomeMs = 60_000
    """Milliseconds to wait for an answer to a short request; tool calls and streams have no limit."""
    forward_headers: tuple[HeaderName, ...] = ()
    """Request headers of clients that are passed on besides the fixed allow-list (HEADERS)."""
    probe_again_ms: Annotated[int, Field(ge=1_000, le=86_400_000)] = 600_000
    """Milliseconds after which a probed era is looked for again; at once when the server comes back or
    answers as the other era (ERA-PROBE)."""
    recheck_ms: SomeMs = 2_000
    """Milliseconds after which a server that cannot be reached is looked for again; each time in vain doubles
    it, up to a minute (CUTOVER-FALLBACK)."""
    sessions: bool = True
    """Whether the server has sessions; false for a legacy server that gives no Mcp-Session-Id."""

    @model_validator(mode="before")
    @classmethod
    def _without_credentials(cls, given: Any) -> Any:
        """Take a command for what it is: nothing over standard input says who asks."""
        return {"credentials": "none", **given} if isinstance(given, dict) and given.get("command") else given

    @model_validator(mode="after")
    def _one_address(self) -> Self:
        if bool(self.url) == bool(self.command):
            raise ValueError("needs either url or command")
        if self.command and (self.credentials != "none" or self.headers or self.forward_headers):
            raise ValueError("a command has no headers and no credentials: give it what it needs in env")
        if self.command and not self.sessions:
            raise ValueError("sessions = false: a command has sessions, one for each process")
        return self

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        given = [self.service_token is not None, self.service_token_file is not None]
        if all(given):
            raise ValueError("service_token and service_token_file exclude each other")
        if self.credentials == "service" and not any(given):
            raise ValueError('credentials = "service" needs service_token or service_token_file')
        return self

    @model_validator(mode="after")
    def _one_credential(self) -> Self:
        if any(name.lower() == "authorization" for name in self.forward_headers):
            raise ValueError('forward_headers: Authorization is passed on by credentials = "pass" only')
        if self.credentials != "none" and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError(
                'headers: Authorization stands beside the one of credentials: say credentials = "none", '
                'or "service" with a service_token'
            )
        return self

    def fixed_headers(self) -> dict[str, str]:
        """Give `headers` in the clear, for the request."""
        return {name: value.get_secret_value() for name, value in self.headers.items()}

    def environment(self) -> dict[str, str]:
        """Give `env` in the clear, for the process."""
        return {name: value.get_secret_value() for name, value in self.env.items()}

    @property
    def address(self) -> str:
        """Where the server is, for people."""
        return self.url or shlex.join(self.command)


class Tasks(Section):
    """How tasks are made, followed and kept."""

    default_ttl_ms: SomeMs | None = Field(default=None, examples=[3_600_000])
    """ttl in milliseconds to ask an upstream for when the client names none. Not set: none is asked
    (ML-CREATE)."""
    optional: Literal["task", "plain"] = "task"
    """How a modern client's call of a tool with optional task support runs (ML-CREATE)."""
    undeclared: Literal["refuse", "wait"] = "refuse"
    """What a modern client without the tasks extension gets from a tool that requires a task: -32021, or
    the result once the task ended (ML-UNDECLARED)."""
    handle_after_ms: SomeMs = 1000
    """Milliseconds after which a legacy client that asked for a task gets its handle, although the server
    has not answered the call yet (LM-CREATE)."""
    promote: tuple[str, ...] = Field(default=(), examples=[["export_*"]])
    """Tools, by glob, whose calls the shim itself runs as tasks where the server has no tasks for them
    (PROMOTE-1)."""
    promote_after_ms: Ms = 0
    """Milliseconds that such a call may answer by itself before its client gets a handle (PROMOTE-1)."""
    promote_rerun: bool = False
    """Whether such a call runs once more after the shim died under it, where the tool says idempotentHint;
    its arguments are then in the ledger until it ends (PROMOTE-3)."""
    input_rounds: Count = 10
    """Rounds of questions that one call may ask (LM-MRTR)."""
    undeclared_wait_ms: SomeMs = 300_000
    """Milliseconds to wait for that result at most."""
    lost_confirm_ms: Ms = 2000
    """Milliseconds between two answers "unknown" before a task counts as lost (ML-SESSION-LOST)."""
    question_wait_ms: SomeMs = 10_000
    """Milliseconds to wait for the question of a task that needs input (ML-INPUT)."""
    lost_input: Literal["wait", "fail"] = "wait"
    """What becomes of a task whose question never came (ML-INPUT)."""
    abandoned_after_ms: SomeMs = 86_400_000
    """Milliseconds without a client's touch after which a task is abandoned (DUR-6)."""
    on_abandon: Literal["keep", "cancel"] = "keep"
    """What becomes of an abandoned task (DUR-6)."""
    retention_ms: Ms = 86_400_000
    """Milliseconds a task without a ttl is kept after its end (DUR-4)."""
    tombstone_ms: Ms = 86_400_000
    """Milliseconds its owner is told "expired" after that (DUR-4)."""
    max_age_ms: SomeMs = 2_592_000_000
    """Milliseconds after which a task that never ended is given up (DUR-4)."""
    idempotency_window_ms: SomeMs = 86_400_000
    """Milliseconds an idempotency key is remembered (DUR-3)."""
    tasks_per_session: Count = 1
    """Open tasks in one upstream session; on some servers a cancel takes the whole session along
    (ML-SESSION)."""
    default_poll_interval_ms: SomeMs = 1000
    """Milliseconds between polls where the upstream gives no hint."""
    refresh_list: Ms = 20
    """Open tasks on a page of tasks/list that are looked at upstream again (LL-LIST)."""
    sweep_ms: SomeMs = 30_000
    """Milliseconds between looks for what expired or was abandoned."""


class Sessions(Section):
    """The pool of upstream sessions that the shim opens for modern clients (ML-SESSION)."""

    per_caller: Count = 64
    """Sessions for one caller; at the limit a call is a 429."""
    total: Count = 4096
    """Sessions in all; at the limit a call is a 503."""
    idle_ms: SomeMs = 600_000
    """Milliseconds an unused session is kept, and after which, again and again, an open task is looked at
    that no client asks for: it may have ended, and need its session no more (DUR-6)."""
    spares: Annotated[int, Field(ge=0, le=16)] = 1
    """Sessions kept ready for a caller's next task."""
    close: bool = False
    """Whether dropped sessions are closed with DELETE; on some servers that breaks the other sessions."""


class Ownership(Section):
    """What is taken over from before the shim was there (OWN-ADOPT)."""

    adopt_until: AwareDatetime | None = Field(default=None, examples=["2026-12-24T18:00:00Z"])
    """Time, with its zone, until which a session or task id that the ledger does not know, but the
    upstream accepts with the request's own credential, becomes that caller's. Not set: never."""


class Ledger(Section):
    """The file of tasks, sessions and questions."""

    path: Path = Path("taskshim.db")
    """SQLite file, made with mode 0600; one process holds it at a time (DUR-7)."""
    synchronous: Literal["full", "normal"] = "full"
    """"full" survives a power cut; "normal" only a crash of the process."""
    lock_wait_ms: Ms = 10_000
    """Milliseconds to wait for another process to let go of the file (DUR-7)."""
    store_results: bool = True
    """Whether results, errors, statusMessages, questions and their answers go into the file. If not they are
    kept in memory, within limits.kept_bytes; those of earlier runs are taken out of the file at the start,
    and after a restart a result is had only where the server gives it again (DUR-8)."""
    cache_rows: Count = 20_000
    """Tasks kept in memory."""


class Mappings(Section):
    """The site's own dialects (CS-TABLE)."""

    files: tuple[Path, ...] = ()
    """Further dialect tables, after those that ship."""
