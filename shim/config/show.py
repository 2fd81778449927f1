"""The effective config as text, secrets masked; what one has that another has not."""

import hashlib
import json
from collections.abc import Iterator
from datetime import date
from typing import Any

from pydantic import BaseModel, SecretStr

from shim.config.model import Config

_MASK = "********"


def show(config: Config) -> str:
    """Write the effective config as TOML; what is not set stands as a comment."""
    lines: list[str] = []
    for name, section in config:
        for one in section if isinstance(section, tuple) else (section,):
            lines += _table(f"[[{name}]]" if isinstance(section, tuple) else f"[{name}]", name, one)
    return "\n".join(lines).strip() + "\n"


def digest(config: Config) -> str:
    """Tell one config from another in a log; secrets have no part in it (OWN-STORE)."""
    return hashlib.sha256(show(config).encode()).hexdigest()[:16]


def changed_keys(old: Config, new: Config) -> tuple[str, ...]:
    """Name the keys whose values differ, secrets too."""
    before, after = dict(_flat(old)), dict(_flat(new))
    return tuple(sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)))


def toml_value(value: Any) -> str:
    """Write a value as TOML; a secret as stars."""
    match value:
        case SecretStr():
            return f'"{_MASK}"'
        case bool():
            return "true" if value else "false"
        case int() | float() | date():
            return str(value)
        case tuple() | list():
            return "[" + ", ".join(map(toml_value, value)) + "]"
        case dict():
            pairs = ", ".join(f"{json.dumps(key)} = {toml_value(one)}" for key, one in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
    return json.dumps(str(value), ensure_ascii=False)


def _table(header: str, name: str, section: BaseModel) -> Iterator[str]:
    yield header
    inner: list[tuple[str, BaseModel]] = []
    for key, value in section:
        if isinstance(value, BaseModel):
            inner.append((f"{name}.{key}", value))
        else:
            yield f"# {key} is not set" if value is None else f"{key} = {toml_value(value)}"
    yield ""
    for path, table in inner:
        yield from _table(f"[{path}]", path, table)


def _flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        for key, inner in value:
            yield from _flat(inner, f"{at}.{key}".lstrip("."))
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{at}[{number}]")
    else:
        yield at, value
