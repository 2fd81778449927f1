"""`taskshim mappings`: the dialects' tables, as people read them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from pydantic import BaseModel

from shim.cli.common import config_option, fail, operator_errors, read_config
from shim.cli.text import columns, terminal_room
from shim.hub.dialect import Dialect
from shim.hub.losses import INWARDS, OUTWARDS
from shim.hub.registry import load_dialects
from shim.hub.status import Status

_STYLES = {
    "augment": "by params.{member} of the call",
    "call": "by a method of its own",
    "server": "by the server, which may answer any call with a task",
}
_SUPPORT = {
    "listed": "execution.taskSupport says it",
    "optional": "not said, taken as optional",
    "none": "not said, the server decides",
}


@click.command()
@click.argument("name", required=False)
@config_option
@operator_errors
def mappings(name: str | None, config_file: Path | None) -> None:
    """Show the dialects, or how the one called NAME speaks of tasks.

    With --config the site's own tables are among them.
    """
    extra = () if config_file is None else read_config(config_file, {}, upstream_needed=False).mappings.files
    dialects = load_dialects(extra)
    if name is None:
        rows = [(one.name, one.era, one.methods.create or "-", one.methods.get) for one in dialects.values()]
        click.echo("\n".join(columns([("NAME", "ERA", "CREATE", "GET"), *rows])))
        return
    if name not in dialects:
        fail(f"no dialect is called {name!r}; there are {', '.join(sorted(dialects))}")
    click.echo("\n".join(_describe(dialects[name])))


def _describe(dialect: Dialect) -> Iterator[str]:
    yield f"{dialect.name}, {dialect.era} era"
    yield from _part("Verbs", _names(dialect.methods))
    yield from _part("States, from the hub", _outwards(dialect))
    yield from _part("States, to the hub", _inwards(dialect))
    yield from _part("Members of a task", _names(dialect.fields))
    yield from _part("Members of a list", _names(dialect.members))
    yield from _part("Besides", _besides(dialect))
    for title, table in (("Lost from the hub's task", OUTWARDS), ("Lost to the hub and back", INWARDS)):
        if losses := table.get(dialect.name):  # a site's own table has none written down
            yield from _part(title, list(losses.items()))


def _part(title: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield ""
    yield title
    yield from columns(rows, "  ", terminal_room())


def _names(table: BaseModel) -> list[tuple[str, str]]:
    return [(key.replace("_", " "), str(name or "-")) for key, name in table]


def _outwards(dialect: Dialect) -> list[tuple[str, str, str]]:
    def remark(status: Status) -> str:
        return f'statusMessage "{dialect.messages[status]}"' if status in dialect.messages else ""

    return [(status.value, dialect.outwards[status], remark(status)) for status in Status]


def _inwards(dialect: Dialect) -> list[tuple[str, str, str]]:
    rows = [(state, status.value, "") for state, status in dialect.inwards.items()]
    for state, read in dialect.lenient.items():
        rows.append(
            (state, read.value if read else "-", "read, never written" if read else "the task is unknown")
        )
    return rows


def _besides(dialect: Dialect) -> list[tuple[str, str]]:
    carries = dialect.carries
    create = dialect.create
    ways = [
        *(["as server requests on a stream"] if carries.input_stream else []),
        *([f"as {dialect.fields.input_requests} in the task"] if dialect.fields.input_requests else []),
    ]
    answers = [
        *(["as JSON-RPC responses"] if carries.input_stream else []),
        *([f"by {dialect.methods.answer}"] if dialect.methods.answer else []),
    ]
    return [
        ("a task is made", _STYLES[create.style].format(member=create.member)),
        (
            "the reply holds it",
            f"in a member `{create.member}`" if create.reply == "nested" else "as the result itself",
        ),
        ("its first state is", create.first or "the one it is in"),
        (
            "the outcome is given",
            f"by {dialect.methods.result}" if dialect.methods.result else "in the task itself",
        ),
        ("questions are asked", " or ".join(ways) or "never"),
        ("answers come", " or ".join(answers)),
        ("ttl", "always there, null for unlimited" if carries.ttl_always else "only where there is one"),
        ("related-task in _meta", "yes" if carries.related_task else "no"),
        ("update and cancel answer", "with an acknowledgement" if carries.ack else "with the task"),
        ("cancel of an ended task", "is acknowledged" if carries.cancel_of_ended == "ack" else "is an error"),
        ("task support of tools", _SUPPORT[carries.tool_support]),
    ]
