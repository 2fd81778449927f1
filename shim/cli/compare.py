"""Where two servers differ in what they offer: told before anyone is moved (cutover)."""

from collections.abc import Iterator
from typing import Any

from shim.cli.survey import Survey

_DEPTH = 20


def differences(one: Survey, other: Survey, names: tuple[str, str]) -> list[tuple[str, str]]:
    """Give each tool that is not the same on both, and how it differs."""
    found: list[tuple[str, str]] = []
    for tool in sorted(one.tools.keys() | other.tools.keys()):
        if tool not in other.tools or tool not in one.tools:
            found.append((tool, f"only on {names[0] if tool in one.tools else names[1]}"))
            continue
        paths = list(_paths(one.schemas.get(tool), other.schemas.get(tool), ()))
        if paths:
            found.append((tool, "inputSchema differs at " + ", ".join(paths)))
        # a server of the new API decides by itself and lists no support
        listed = {one.tools[tool], other.tools[tool]} - {"decides"}
        if len(listed) > 1:
            found.append((tool, f"task support {one.tools[tool]} / {other.tools[tool]}"))
    return found


def _paths(one: Any, other: Any, at: tuple[str, ...]) -> Iterator[str]:
    """Give the places where two schemas differ, the innermost ones; prose is not compared."""
    if isinstance(one, dict) and isinstance(other, dict) and len(at) < _DEPTH:
        for key in sorted(one.keys() | other.keys()):
            if key in {"description", "title", "$schema"} and not isinstance(one.get(key), dict):
                continue
            yield from _paths(one.get(key), other.get(key), (*at, key))
    elif one != other:
        yield ".".join(at) or "its root"
