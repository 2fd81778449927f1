"""A shim for a test: in front of a given upstream, on free ports, its files in a folder of the test's."""

import json
from pathlib import Path
from typing import Any

from shim.config import Config

DEFAULTS: dict[str, dict[str, Any]] = {}
"""Sections that a test wants beneath all that its scenes set."""

PATIENCE_MS = 120_000
"""For a connection: a machine that is too busy to make one in seconds is no server that is away."""


def config_for(url: str, folder: Path, **sections: Any) -> Config:
    """Give a config; `sections` override or add whole keys, `upstream` the upstream's."""
    base: dict[str, Any] = {
        "upstream": [{"url": url, "connect_timeout_ms": PATIENCE_MS, **sections.pop("upstream", {})}],
        "listen": {"port": 0},
        "admin": {"port": 0},
        "ledger": {"path": folder / "ledger.db"},
        "identity": {"key_file": folder / "shim.key"},
        "audit": {"path": folder / "audit.jsonl"},
    }
    for given in (DEFAULTS, sections):
        for name, values in given.items():
            base[name] = {**base.get(name, {}), **values}
    return Config.model_validate(base)


def events(folder: Path, name: str | None = None) -> list[dict[str, Any]]:
    """Give the audit events, those of one name or all, that a shim wrote into a folder, of whole lines."""
    audit = folder / "audit.jsonl"
    whole = audit.read_text().rpartition("\n")[0] if audit.exists() else ""
    lines = (json.loads(line) for line in whole.splitlines())
    return [event for event in lines if name is None or event["event"] == name]


def denials(folder: Path) -> list[str]:
    """Give why requests were denied, in order."""
    return [event["reason"] for event in events(folder, "denied")]
