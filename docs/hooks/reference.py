"""Makes the reference pages from the code each time the site is built, so that they are never old."""

import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import click
import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

sys.path.insert(0, str(Path(__file__).parent))

from messages import messages

from shim.audit.events import EVENTS, SCHEMA_VERSION, Event
from shim.audit.metrics import Metrics
from shim.cli.main import cli
from shim.cli.warnings import CHECKS
from shim.config import Config
from shim.config.keys import ENV_PREFIX, section_of
from shim.config.show import toml_value
from shim.hub.registry import load_errors
from shim.reload import is_live

_PACKAGE = Path(__file__).parents[2] / "shim"
_FAMILIES = {
    "ClientFault": "The client's request is at fault",
    "UpstreamFault": "The server behind the shim is at fault",
    "OwnFault": "The shim is at fault",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to the site's."""
    for name, text in pages().items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    return files


def pages() -> dict[str, str]:
    """Give the text of every page by its file name."""
    made = {
        "config.md": _config(),
        "cli.md": _cli(),
        "metrics.md": _metrics(),
        "events.md": _events(),
        "errors.md": _errors(),
    }
    return {name: "\n".join(lines).rstrip() + "\n" for name, lines in made.items()}


# config


def _config() -> Iterator[str]:
    yield from (
        "# Config",
        "",
        "Every key, its default and its meaning. Flags beat variables, which beat the file; `taskshim check` prints",
        "what is in force. The variable of a key is `TASKSHIM_SECTION_KEY`, as `TASKSHIM_LISTEN_PORT`; those of",
        "`[[upstream]]` set the only one. Durations are milliseconds. Relative paths count from the working directory.",
        "",
        "**Reload** tells what SIGHUP changes at once; the rest takes effect with the next start. Names in capitals",
        "are rules of [the translation](../translation.md).",
        "",
    )
    for name, field in Config.model_fields.items():
        section = section_of(field)
        assert section is not None
        header = f"[[{name}]]" if name == "upstream" else f"[{name}]"
        yield from _section(header, name, section)
    yield from (
        "## What `check --strict` takes for a fault",
        "",
        "`--accept KEY` says that it is known and meant.",
        "",
        "| key | when |",
        "|---|---|",
    )
    yield from (f"| `{one.key}` | {one.when} |" for one in CHECKS)


def _section(header: str, path: str, section: type[BaseModel]) -> Iterator[str]:
    fields = section.model_fields.items()
    plain = [(key, field) for key, field in fields if section_of(field) is None]
    yield from (f"## `{header}`", "", _line(inspect.getdoc(section) or ""), "")
    yield from ("| key | default | reload | meaning |", "|---|---|---|---|")
    for key, field in plain:
        live = is_live(f"{path}[0].{key}" if path == "upstream" else f"{path}.{key}")
        yield f"| `{key}` | {_default(field)} | {'yes' if live else 'no'} | {_cell(field.description or '')} |"
    yield ""
    for key, field in fields:
        if (inner := section_of(field)) is not None:
            yield from _section(f"[{path}.{key}]", f"{path}.{key}", inner)


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is None or default is PydanticUndefined or default == "":
        return "not set"
    return f"`{toml_value(default)}`"


# commands


def _cli() -> Iterator[str]:
    yield from (
        "# Commands",
        "",
        "Exit codes: 0 fine, 1 found something, 2 could not do it. Errors are one line.",
        f"`{ENV_PREFIX}CONFIG` stands in for `--config`. `taskshim completion` makes a shell complete all of this.",
        "",
    )
    for name in sorted(cli.commands):
        yield from _command(cli.commands[name], f"taskshim {name}", 2)


def _command(command: click.Command, path: str, level: int) -> Iterator[str]:
    ctx = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(ctx)])
    yield from (f"{'#' * level} `{path}`", "", f"    {usage}", "")
    yield from (*_paragraphs(command.help or ""), "")
    if command.epilog:
        yield from (*_paragraphs(command.epilog), "")
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if options:
        yield from ("| option | default | meaning |", "|---|---|---|")
        for one in options:
            yield f"| {_spelt(one, ctx)} | {_option_default(one)} | {_cell(one.help or '')} |"
        yield ""
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from _command(command.commands[name], f"{path} {name}", level + 1)


def _spelt(option: click.Option, ctx: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names
    if isinstance(option.type, click.Choice):
        choices = ", ".join(f"`{one}`" for one in option.type.choices)
        return f"{names} {option.metavar}" if option.metavar else f"{names} one of {choices}"
    return f"{names} {option.make_metavar(ctx)}"


def _option_default(option: click.Option) -> str:
    told = isinstance(option.default, (str, int)) and not isinstance(option.default, bool)
    return f"`{option.default}`" if told and option.default != "" else ""


def _paragraphs(text: str) -> Iterator[str]:
    yield re.sub(r"<([^>]*)>", r"`<\1>`", inspect.cleandoc(text.replace("\b", "")))


# metrics


def _metrics() -> Iterator[str]:
    metrics = Metrics(())
    metrics.watch(dropped=int, under_way=int, shadowed={}, legacy_callers=int, reached={}, buffered=int)
    yield from (
        "# Metrics",
        "",
        "Prometheus reads them at `/metrics` of the admin address. Label values are bounded: a method that is not",
        "known is `other`.",
        "",
        "| metric | type | labels | what |",
        "|---|---|---|---|",
    )
    collectors = metrics.registry._names_to_collectors  # noqa: SLF001 - the registry tells of no other way
    for family in sorted(metrics.registry.collect(), key=lambda one: one.name):
        labels = getattr(family, "_labelnames", None) or getattr(
            collectors.get(family.name), "_labelnames", ()
        )
        name = f"{family.name}_total" if family.type == "counter" else family.name
        named = ", ".join(f"`{one}`" for one in labels)
        yield f"| `{name}` | {family.type} | {named} | {_cell(family.documentation)} |"


# events


def _events() -> Iterator[str]:
    common = {field.name for field in msgspec.structs.fields(Event)}
    yield from (
        "# Audit events",
        "",
        f"The audit log is one JSON object a line; this is version {SCHEMA_VERSION} (`v`). Names and meanings are",
        "stable: there are only additions. A field that is not set is left out. No field holds an argument, a result,",
        "a credential or a header value. The writer adds `v`, `seq`, `ts` and `instance`.",
        "",
        "What every event may say: " + ", ".join(f"`{name}`" for name in sorted(common)) + ".",
        "",
    )
    for name, event in sorted(EVENTS.items()):
        yield from (f"## `{name}`", "", _line(inspect.getdoc(event) or ""), "")
        own = [field for field in msgspec.structs.fields(event) if field.name not in common]
        if own:
            yield from ("| field | type |", "|---|---|")
            yield from (f"| `{field.encode_name}` | {_cell(_type(field.type))} |" for field in own)
            yield ""


def _type(kind: Any) -> str:
    """Write a type as it stands in JSON."""
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    match get_origin(kind):
        case types.UnionType:
            return " or ".join(_type(one) for one in get_args(kind) if one is not type(None))
        case origin if origin in {tuple, list}:
            return f"list of {_type(get_args(kind)[0])}"
        case origin if origin is dict:
            return "object"
        case None:
            return names.get(kind, "object")
    return " or ".join(f"`{one}`" for one in get_args(kind)).replace("`None`", "none")


# errors


def _errors() -> Iterator[str]:
    table = load_errors()
    yield from (
        "# Errors",
        "",
        "An error of the shim's own is a JSON-RPC error object. Its message names the fault, the place and the mend.",
        "What the server answers passes as it is.",
        "",
        "## Codes",
        "",
        "| code | HTTP, new era | HTTP, old era | meaning |",
        "|---|---|---|---|",
    )
    for one in table.values():
        shown = " | ".join(
            "never sent" if status is False else str(status) for status in (one.modern, one.legacy)
        )
        yield f"| {one.code} | {shown} | {_cell(one.meaning)} |"
    yield from (
        "",
        "## Messages",
        "",
        "What stands in braces is filled in. Without a status of its own an answer has that of its code.",
        "",
    )
    found = sorted(set(messages(_PACKAGE)), key=lambda one: (-one.code, one.status or 0, one.text))
    for family, title in _FAMILIES.items():
        yield from (f"### {title}", "", "| code | HTTP | message |", "|---|---|---|")
        for one in found:
            if one.family == family:
                yield f"| {one.code} | {one.status or ''} | {_code(one.text)} |"
        yield ""


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"
