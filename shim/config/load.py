"""Reads the config: the file, then TASKSHIM_ variables, then flags; what is wrong is one clear line."""

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from shim.audit.counted import counted
from shim.config.keys import ENV_PREFIX, env_names, list_keys, meant
from shim.config.model import Config
from shim.hub.toml import TableError, parse

_KUBERNETES = re.compile(r"TASKSHIM_(?:PORT|PORT_\d+_.*|SERVICE_HOST|SERVICE_PORT(?:_.*)?)")
"""What Kubernetes sets for a service that happens to be called taskshim."""
_ALIKE = 0.85
_OTHERS = 3

Place = tuple[str | int, ...]


class ConfigError(Exception):
    """The config cannot be used; the message is one line that names the place and the fault."""


def load_config(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, Any], *, upstream_needed: bool = True
) -> Config:
    """Give the effective config. Raises ConfigError.

    `overrides` are the flags `upstream`, `listen` (HOST:PORT), `ledger` and `audit`; None is not given.
    Without `upstream_needed` the config may name no server: for commands that only read the ledger.
    """
    text = "" if path is None else _read(path)
    try:
        data: dict[str, Any] = parse(text, str(path))
    except TableError as exc:
        raise ConfigError(str(exc)) from exc
    sources: dict[Place, str] = {}
    for name, keys in _variables(env).items():
        sources[_put(data, keys, _value(env[name], keys), name)] = name
    for dotted, value in _by_key(overrides).items():
        flag = f"--{dotted.partition('.')[0]}"
        sources[_put(data, tuple(dotted.split(".")), value, flag)] = flag
    try:
        config = Config.model_validate(data)
    except ValidationError as exc:
        raise ConfigError(_line(exc, text, str(path or "config"), sources)) from exc
    if upstream_needed and not config.upstream:
        raise ConfigError(
            "upstream.url: missing: name the server with --upstream, TASKSHIM_UPSTREAM_URL or [[upstream]]"
        )
    return config


def _by_key(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the command line's flags into values by dotted key; a flag that is None was not given."""
    given = {
        f"{flag}.{'url' if flag == 'upstream' else 'path'}": overrides.get(flag)
        for flag in ("upstream", "ledger", "audit")
    }
    listen = overrides.get("listen")
    if listen is not None:
        host, _, port = str(listen).rpartition(":")
        if not port.isdecimal() or not host:
            raise ConfigError(f"--listen: expected HOST:PORT, as 127.0.0.1:8765, got {listen!r}")
        given |= {"listen.host": host.removeprefix("[").removesuffix("]"), "listen.port": int(port)}
    return {key: value for key, value in given.items() if value is not None}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: not UTF-8 text") from exc
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}") from exc


def _variables(env: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Pick the variables that set a key; one that looks like a mistyped key is refused."""
    known = env_names()
    sections = tuple(f"{ENV_PREFIX}{section.upper()}_" for section in Config.model_fields)
    found: dict[str, tuple[str, ...]] = {}
    for name, value in sorted(env.items()):
        if not name.startswith(ENV_PREFIX) or not value or _KUBERNETES.fullmatch(name):
            continue
        if name in known:
            found[name] = known[name]
            continue
        close = get_close_matches(name, known, 1, _ALIKE)
        if close or name.startswith(sections):
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{name}: no key has this variable{hint}")
    return found


def _value(text: str, keys: tuple[str, ...]) -> Any:
    """Read a variable: a list or table as in TOML, a list also with commas, else the text itself.

    Numbers and the like stay text here; the model turns them into what the key holds.
    """
    if text[0] in "[{":
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            return text
    return [part.strip() for part in text.split(",")] if keys in list_keys() else text


def _put(data: dict[str, Any], keys: tuple[str, ...], value: Any, source: str) -> Place:
    """Set a key in the file's data; of upstreams the only one, made if there is none."""
    place: list[str | int] = []
    table: Any = data
    for key in keys[:-1]:
        place.append(key)
        if not isinstance(table, dict):
            break  # the model refuses it, with its place in the file
        table = table.setdefault(key, {})
        if key == "upstream":
            table = _only_upstream(data, source)
            place.append(0)
    if isinstance(table, dict):
        table[keys[-1]] = value
    return (*place, keys[-1])


def _only_upstream(data: dict[str, Any], source: str) -> Any:
    listed = data["upstream"] or [{}]
    if not isinstance(listed, list):
        return listed
    if len(listed) > 1:
        raise ConfigError(f"{source}: the config has {len(listed)} upstreams: set it in the file")
    data["upstream"] = listed
    return listed[0]


def _line(exc: ValidationError, text: str, source: str, sources: Mapping[Place, str]) -> str:
    """Say the first fault in one line: where, which key, what."""
    errors = exc.errors(include_url=False, include_input=False)
    # an unknown key explains most other faults, a missing one for instance
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    place = first["loc"]
    at = next((name for key, name in sources.items() if key == place[: len(key)]), None)
    if at is None:
        line = _line_number(text, place)
        at = f"{source}:{line}" if line else source
    dotted = _dotted(place)
    others = [_dotted(one["loc"]) for one in errors if one is not first]
    shown = ", ".join(others[:_OTHERS]) + (", ..." if len(others) > _OTHERS else "")
    more = f" (and {len(others)} more: {shown})" if others else ""
    return ": ".join(part for part in (at, dotted, _fault(first) + more) if part)


def _dotted(place: Place) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def _fault(error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            guess = meant(error["loc"])
            return f"unknown key; did you mean {guess}?" if guess else "unknown key"
        case "missing":
            return "missing"
        case "model_type" | "dict_type":
            return "must be a table"
        case "tuple_type" if error["loc"] == ("upstream",):
            return "must be written [[upstream]], with two brackets"
        case "tuple_type" | "list_type":
            return 'must be a list, as ["..."]'
        case "int_parsing" | "int_type" | "int_from_float":
            of_time = str(error["loc"][-1]).endswith("_ms")
            return "must be milliseconds, as 60000 for a minute" if of_time else "must be a whole number"
        case "date_from_datetime_parsing" | "date_parsing" | "date_type":
            return "must be a day, as 2027-07-28"
        case "ip_any_network":
            return "must be a network with no bits set behind its prefix, as 10.0.0.0/24"
        case "too_short" | "string_too_short":
            least = error["ctx"]["min_length"]
            what = "item" if error["ctx"].get("field_type") == "Tuple" else "character"
            return f"must have at least {counted(least, what)}"
    return error["msg"].removeprefix("Value error, ").replace("Input should", "must")


_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\"' -]+?)\s*\]\]?\s*(?:#.*)?")


def _line_number(text: str, place: Place) -> int | None:
    """Find the line of a key, or of the table that lacks it."""
    wanted = [part for part in place if isinstance(part, str)]
    index = place[1] if place[:1] == ("upstream",) and len(place) > 1 else None
    table: list[str] = []
    arrays_seen = -1
    found: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.fullmatch(line)
        if header is not None:
            table = header[2].replace('"', "").split(".")
            arrays_seen += header[1] == "[["
        if table[:1] == ["upstream"] and index not in {None, arrays_seen}:
            continue
        key = re.match(r"\s*\"?([\w-]+)\"?\s*[=.]", line)
        here = table if header is not None else [*table, key[1]] if key else None
        if here is not None and here == wanted[: len(here)]:
            found = number
            if here == wanted:
                return number
    return found
