"""A shim for a test: in front of a given upstream, on free ports, its files in a folder of the test's."""

from pathlib import Path
from typing import Any

from shim.config import Config


def config_for(url: str, folder: Path, **sections: Any) -> Config:
    """Give a config; `sections` override or add whole keys, `upstream` the upstream's."""
    base: dict[str, Any] = {
        "upstream": [{"url": url, **sections.pop("upstream", {})}],
        "listen": {"port": 0},
        "admin": {"port": 0},
        "ledger": {"path": folder / "ledger.db"},
        "identity": {"key_file": folder / "shim.key"},
        "audit": {"path": folder / "audit.jsonl"},
    }
    for name, values in sections.items():
        base[name] = {**base.get(name, {}), **values}
    return Config.model_validate(base)
