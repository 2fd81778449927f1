"""The servers of a run: canned upstream, pass-through, and shims with one key and the audit log on."""

import json
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT, Service, free_port, module

KEY, STRANGER = "bench-key", "bench-stranger"
MANY = 1_000_000


def canned(directory: Path, *, sse: bool = False, name: str = "upstream") -> Service:
    """Describe the canned upstream."""
    port = free_port()
    flags = ["--sse"] if sse else []
    command = module("benchmarks.upstream", "--port", str(port), *flags)
    return Service(name, command, port, directory / f"{name}.log")


def canned_modern(directory: Path) -> Service:
    """Describe the canned modern upstream."""
    port = free_port()
    command = module("benchmarks.modern_upstream", "--port", str(port))
    return Service("modern-upstream", command, port, directory / "modern-upstream.log")


def pass_through(directory: Path, upstream: Service, name: str = "pass-through") -> Service:
    """Describe the bare byte pass-through in front of an upstream."""
    port = free_port()
    origin = f"http://127.0.0.1:{upstream.port}"
    command = module("benchmarks.passthrough", "--port", str(port), "--upstream", origin)
    return Service(name, command, port, directory / f"{name}.log")


def peer(directory: Path, python: Path) -> Service:
    """Describe the real legacy server, with JSON answers and without an event store: its fastest form."""
    port = free_port()
    script = str(ROOT / "tests" / "peers" / "legacy_server.py")
    command = [str(python), script, "--port", str(port), "--json", "--no-events"]
    return Service("peer", command, port, directory / "peer.log")


def shim(
    directory: Path, name: str, upstream: Service, ledger: Path | None = None, /, **sections: dict[str, Any]
) -> Service:
    """Describe a shim; `sections` change its config, None takes a key out. Its files lie in `directory`."""
    port = free_port()
    config: dict[str, dict[str, Any]] = {
        "listen": {"port": port},
        "identity": {"sources": ["api_key"], "key_file": str(directory / "bench.key")},
        "identity.api_key": {"keys": {"bench": KEY, "stranger": STRANGER}},
        "ledger": {"path": str(ledger or directory / f"{name}.db")},
        "audit": {"path": str(directory / f"{name}.audit.jsonl")},
        "admin": {"port": free_port()},
        "limits": {
            "sessions_per_caller": MANY,
            "open_tasks_per_caller": MANY,
            "requests_per_caller": MANY,
            "polls_per_second": MANY,
        },
        "log": {"level": "warning"},
    }
    for section, values in sections.items():
        config[section] = {**config.get(section, {}), **values}
    behind = {"url": upstream.url, **config.pop("upstream", {})}
    text = "".join(_table(f"[{section}]", values) for section, values in config.items())
    file = directory / f"{name}.toml"
    file.write_text(text + _table("[[upstream]]", behind))
    command = module("shim.cli.main", "serve", "--config", str(file))
    return Service(name, command, port, directory / f"{name}.log")


def _table(header: str, values: dict[str, Any]) -> str:
    there = {key: value for key, value in values.items() if value is not None}
    return "\n".join([header, *(f"{key} = {_value(value)}" for key, value in there.items()), "", ""])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)
