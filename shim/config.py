"""What may be set, by file, environment and flags, in that order of growing weight."""

import hashlib
import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

Ms = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=1)]
Support = Literal["required", "optional", "forbidden"]


class ConfigError(ValueError):
    """A setting cannot be used; the message names its place and the mend, in one line."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Listen(_Section):
    """Where clients reach the shim."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765
    """Port to listen on; 0 takes a free one."""
    path: str = "/mcp"
    """Path that decides the era itself; /legacy, /modern and /create-status are pinned."""
    public_url: str | None = None
    """URL clients use, where it is not the one listened on."""
    allowed_origins: list[str] = []
    """Browser origins that may call (ORIGIN); none by default."""
    allowed_hosts: list[str] = []
    """Host names that requests may use; without any, checked only when listening on loopback."""


class UpstreamSettings(_Section):
    """One server behind the shim."""

    name: str = "main"
    """Name in logs and metrics."""
    url: str
    """URL of its MCP endpoint."""
    dialect: str = "auto"
    """`auto` asks the server; create-status and own tables must be named (CS-DETECT)."""
    credentials: Literal["pass", "service", "none"] = "pass"
    """What goes upstream: the caller's own credential, the shim's, or none (OWN-CREDENTIAL)."""
    service_token: SecretStr | None = None
    """The shim's own bearer token, for `service`."""
    service_token_file: Path | None = None
    """File that holds that token."""
    headers: dict[str, str] = {}
    """Headers added to every upstream request."""
    forward_headers: list[str] = []
    """Request headers let through besides the allow-list (HEADERS)."""
    tool_support: dict[str, Support] = {}
    """Glob of a tool's name -> its task support, over what the server says."""
    sessions: bool = True
    """False: a server without initialize and sessions."""
    connect_timeout_ms: Ms = 5_000
    """Longest wait for a connection."""
    answer_timeout_ms: Ms = 60_000
    """Longest wait for an answer's first byte, but for tool calls, which may take as long as they like."""

    def token(self) -> str | None:
        """Give the service token, from wherever it is set. Raises ConfigError."""
        if self.service_token_file is not None:
            try:
                return self.service_token_file.read_text("utf-8").strip()
            except OSError as exc:
                raise ConfigError(f"upstream.service_token_file: cannot be read: {exc.strerror}") from exc
        return self.service_token.get_secret_value() if self.service_token else None


class ApiKeys(_Section):
    """Named keys (source `api_key`)."""

    header: str = "X-Api-Key"
    """Header that carries the key; Authorization means a bearer token."""
    keys: dict[str, SecretStr] = {}
    """Name -> key."""
    file: Path | None = None
    """File with a line `name = key` for each."""

    def all_keys(self) -> dict[str, str]:
        """Give all keys by name. Raises ConfigError."""
        found = {name: key.get_secret_value() for name, key in self.keys.items()}
        if self.file is not None:
            try:
                lines = self.file.read_text("utf-8").splitlines()
            except OSError as exc:
                raise ConfigError(f"identity.api_key.file: cannot be read: {exc.strerror}") from exc
            for line in lines:
                name, found_sign, key = line.partition("=")
                if found_sign and not line.lstrip().startswith("#"):
                    found[name.strip()] = key.strip()
        return found


class TrustedHeader(_Section):
    """A caller's name set by a proxy in front (source `header`)."""

    name: str = "X-Forwarded-User"
    """Header that carries the name."""
    trusted_proxies: list[str] = ["127.0.0.1/32"]
    """Networks whose word is taken."""


class Identity(_Section):
    """Who is calling (section 9 of the rules)."""

    sources: list[Literal["api_key", "header", "token"]] = []
    """Asked in this order; without any, a bearer credential names its caller (OWN-ID)."""
    api_key: ApiKeys = ApiKeys()
    header: TrustedHeader = TrustedHeader()
    vouch_ms: Ms = 300_000
    """How long an upstream's acceptance of a credential is believed (OWN-VOUCH)."""
    credential_hold_ms: Ms = 3_600_000
    """How long a caller's credential is held in memory for its own tasks (OWN-CREDENTIAL)."""
    key_file: Path = Path("taskshim.key")
    """The shim's own key; made with mode 0600 if it is not there (OWN-STORE)."""


class TaskSettings(_Section):
    """How tasks are made, watched and kept."""

    default_ttl_ms: Ms | None = None
    """ttl asked of a legacy server for a modern client's task; unset asks for none."""
    optional: Literal["task", "plain"] = "task"
    """How a tool that can run either way runs for a client that may have a task (ML-CREATE)."""
    undeclared: Literal["refuse", "wait"] = "refuse"
    """A task-only tool called by a client without the extension: refuse, or wait for it (ML-UNDECLARED)."""
    lost_confirm_ms: Annotated[int, Field(ge=0)] = 2_000
    """Least time between two "unknown" of an upstream before a task is lost (ML-SESSION-LOST)."""
    question_wait_ms: Ms = 10_000
    """How long a question may take to come after upstream says input_required (ML-INPUT)."""
    lost_input: Literal["wait", "fail"] = "wait"
    """What becomes of a task whose question was lost."""
    abandoned_after_ms: Ms = 86_400_000
    """When a task that no client asks for counts as abandoned (DUR-6)."""
    on_abandon: Literal["keep", "cancel"] = "keep"
    """What is done with an abandoned task."""
    retention_ms: Ms = 86_400_000
    """How long an ended task without ttl is kept (DUR-4)."""
    tombstone_ms: Ms = 86_400_000
    """How long its owner is told "expired" afterwards."""
    max_age_ms: Ms = 2_592_000_000
    """When an open task is given up."""
    idempotency_window_ms: Ms = 86_400_000
    """How long an idempotency key is remembered (DUR-3)."""
    tasks_per_session: Count = 1
    """Open tasks an upstream session carries (ML-SESSION)."""
    default_poll_interval_ms: Ms = 1_000
    """Pace of the shim's own polls where upstream gives none."""
    refresh_list: Annotated[int, Field(ge=0)] = 20
    """Open tasks of a list page that are looked at again (LL-LIST)."""
    sweep_ms: Ms = 30_000
    """How often the ledger is swept."""


class Sessions(_Section):
    """The pool of upstream sessions (ML-SESSION)."""

    per_caller: Count = 64
    """Sessions of one caller."""
    total: Count = 4_096
    """Sessions of all callers."""
    idle_ms: Ms = 600_000
    """When an unused one is dropped."""
    spares: Annotated[int, Field(ge=0)] = 1
    """Sessions kept ready for a caller's next task."""
    close: bool = False
    """True: a dropped session is ended on the server with DELETE."""


class Modern(_Section):
    """What modern clients get."""

    create_result: Literal["flat", "both"] = "flat"
    """`both` repeats the task under `task`, as some articles have it."""
    missing_mcp_name: Literal["allow", "reject"] = "allow"
    """A request on tasks/* without Mcp-Name (VALIDATE)."""


class Legacy(_Section):
    """What legacy clients get."""

    dialect: str = "experimental"
    """Dialect of a client that does not show its own (CS-DETECT)."""
    page_size: Count = 50
    """Tasks on a page of tasks/list."""
    sessionless_kinds: list[Literal["elicitation", "sampling", "roots"]] = ["elicitation"]
    """Questions that callers without a session are shown in tasks/status (CS-INPUT)."""
    keepalive_ms: Ms = 15_000
    """Pace of the comments that keep the shim's own streams open."""


class Cutover(_Section):
    """The old API's end (SUNSET)."""

    deprecation: date = date(2026, 7, 28)
    """Since when the old API is deprecated."""
    sunset: date | None = None
    """When it goes off here; unset sends no Sunset header."""
    link: str | None = None
    """Page that tells clients what to do."""


class Ownership(_Section):
    """What was there before the shim."""

    adopt_until: datetime | None = None
    """Until then an unknown session that upstream accepts is taken over (OWN-ADOPT)."""


class LedgerSettings(_Section):
    """The ledger's file."""

    path: Path = Path("taskshim.db")
    """SQLite file."""
    synchronous: Literal["full", "normal"] = "full"
    """`normal` may lose the last commits when the machine (not the process) dies."""
    lock_wait_ms: Annotated[int, Field(ge=0)] = 10_000
    """How long to wait for another process to let go of it (DUR-7)."""
    cache_rows: Count = 20_000
    """Task rows held in memory."""


class AuditSettings(_Section):
    """The audit log."""

    path: Path | None = None
    """File of JSON lines; unset writes none."""
    max_bytes: Count = 268_435_456
    """Size at which a new file is begun."""
    daily: bool = True
    """Begin a new file each day."""
    queue: Count = 100_000
    """Events that may wait; more are dropped and counted."""


class LimitSettings(_Section):
    """Bounds, each with a defined answer when it is reached."""

    body_bytes: Count = 4_194_304
    """A client's body: 413."""
    frame_bytes: Count = 4_194_304
    """An upstream's frame or answer: that request fails."""
    header_bytes: Count = 65_536
    """A request's header field: 400."""
    concurrent_requests: Count = 20_000
    """Client requests under way, streams included: 429."""
    open_tasks_per_caller: Count = 1_000
    """Open tasks of one caller: 429."""
    questions_per_task: Count = 64
    """Questions of one task: the next is refused."""
    slow_reader_ms: Ms = 30_000
    """How long a client may not read before it is cut off."""
    tools: Count = 10_000
    """Tools read from an upstream's list."""
    pages: Count = 100
    """Pages read of it."""
    shutdown_ms: Ms = 10_000
    """How long open requests may take to end at a stop."""


class AdminSettings(_Section):
    """The admin address."""

    enabled: bool = True
    """Serve /healthz, /readyz, /metrics and /upstreams."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8766
    """Port to listen on; 0 takes a free one."""


class Mappings(_Section):
    """The site's own dialect tables."""

    files: list[Path] = []
    """Files beside the shipped ones (CS-TABLE)."""


class Log(_Section):
    """The operator's log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level written."""
    format: Literal["auto", "console", "json"] = "auto"
    """`auto` is console on a terminal, JSON lines otherwise."""


class Config(_Section):
    """Everything that may be set."""

    listen: Listen = Listen()
    upstream: Annotated[list[UpstreamSettings], Field(min_length=1, max_length=1)]
    identity: Identity = Identity()
    tasks: TaskSettings = TaskSettings()
    sessions: Sessions = Sessions()
    modern: Modern = Modern()
    legacy: Legacy = Legacy()
    cutover: Cutover = Cutover()
    ownership: Ownership = Ownership()
    ledger: LedgerSettings = LedgerSettings()
    audit: AuditSettings = AuditSettings()
    limits: LimitSettings = LimitSettings()
    admin: AdminSettings = AdminSettings()
    mappings: Mappings = Mappings()
    log: Log = Log()

    @model_validator(mode="after")
    def _fits(self) -> "Config":
        for one in self.upstream:
            if one.credentials == "service" and one.token() is None:
                raise ValueError("upstream.service_token: needed for credentials = \"service\"")
        if "api_key" in self.identity.sources and not self.identity.api_key.all_keys():
            raise ValueError("identity.api_key.keys: no key is set")
        return self

    def masked(self) -> dict[str, Any]:
        """Give everything that is set, secrets masked."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """Give what tells one configuration from another."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def load_config(path: Path | None, env: Mapping[str, str], overrides: Mapping[str, Any]) -> Config:
    """Read the file, then TASKSHIM_SECTION_KEY from the environment, then flags. Raises ConfigError."""
    table: dict[str, Any] = {}
    source = str(path) if path is not None else "config"
    if path is not None:
        try:
            table = tomllib.loads(path.read_text("utf-8"))
        except OSError as exc:
            raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise ConfigError(f"{path}: not TOML: {exc}") from exc
    _take_environment(table, env)
    _take_flags(table, overrides)
    if "upstream" not in table:
        raise ConfigError("upstream: give --upstream URL or an [[upstream]] table")
    try:
        return Config.model_validate(table)
    except ValidationError as exc:
        raise ConfigError(_first_fault(source, exc)) from exc


def _take_environment(table: dict[str, Any], env: Mapping[str, str]) -> None:
    for variable, value in env.items():
        if not variable.startswith("TASKSHIM_"):
            continue
        section, _, key = variable.removeprefix("TASKSHIM_").lower().partition("_")
        if section == "upstream":
            upstreams = table.setdefault("upstream", [{}])
            upstreams[0][key] = value
        elif section in Config.model_fields and key:
            table.setdefault(section, {})[key] = value


def _take_flags(table: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    if (url := overrides.get("upstream")) is not None:
        table.setdefault("upstream", [{}])[0]["url"] = url
    if (listen := overrides.get("listen")) is not None:
        host, _, port = str(listen).rpartition(":")
        if not port.isdigit():
            raise ConfigError(f"--listen {listen}: expected HOST:PORT")
        table.setdefault("listen", {}).update(host=host or "127.0.0.1", port=int(port))
    for name in ("ledger", "audit"):
        if (file := overrides.get(name)) is not None:
            table.setdefault(name, {})["path"] = file


def _first_fault(source: str, exc: ValidationError) -> str:
    error = exc.errors()[0]
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] != "extra_forbidden":
        return f"{source}: {where}: {error['msg'].removeprefix('Value error, ')}"
    section: Any = Config
    for part in error["loc"][:-1]:
        if isinstance(part, str):
            kind = section.model_fields[part].annotation
            section = UpstreamSettings if part == "upstream" else kind
    near = get_close_matches(str(error["loc"][-1]), section.model_fields, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{source}: {where}: no such key{hint}"
