"""What the operator says of tools' task support, over what the server lists (ML-CREATE)."""

from collections.abc import Mapping
from fnmatch import fnmatchcase


def override(overrides: Mapping[str, str], tool: str) -> str | None:
    """Give what stands in the config for a tool, by the first glob that fits."""
    return next((value for glob, value in overrides.items() if fnmatchcase(tool, glob)), None)
