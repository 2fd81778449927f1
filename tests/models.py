"""Independent models of both versions' wire messages (mcp-types), to hold what the shim and the demo send."""

from importlib import import_module
from typing import Any

import pytest


def check_legacy(name: str, value: Any) -> None:
    """Hold a value against the 2025-11-25 model of that name."""
    _check("mcp_types._v2025_11_25", name, value)


def check_modern(name: str, value: Any) -> None:
    """Hold a value against the 2026-07-28 model of that name."""
    _check("mcp_types._v2026_07_28", name, value)


def _check(module: str, name: str, value: Any) -> None:
    pytest.importorskip("mcp_types")
    getattr(import_module(module), name).model_validate(value, by_alias=True, by_name=False)
