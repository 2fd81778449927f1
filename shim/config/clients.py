"""Settings of what clients see: where they connect, and how each era is served."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from shim.config.address import WebUrl
from shim.config.section import Port, Section, SomeMs

PINNED_PATHS = ("/legacy", "/modern", "/create-status")
"""Served beside `listen.path`, each for one kind of client."""


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
