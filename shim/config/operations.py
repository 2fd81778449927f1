"""Settings of what the operator sees: the audit log, the admin address, the log on standard error."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from shim.config.section import Count, Port, Section


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
