"""`taskshim tasks`: look into the ledger, and take from it what is over its time."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from shim.audit.counted import counted
from shim.audit.events import TaskPurged
from shim.audit.log import set_up_for_answer
from shim.audit.sink import FileSink, NullSink, new_instance
from shim.cli.common import config_option, fail, operator_errors, read_config
from shim.cli.ledger_file import Filter, LedgerFileError, check, reading
from shim.cli.text import columns, facts, moment, terminal_room
from shim.clock import SystemClock, duration
from shim.config import Config
from shim.hub.status import Status
from shim.ledger.records import InputRow, TaskRow
from shim.ledger.sqlite import SqliteLedger
from shim.opening import payloads_of

_CALLER_CHARS = 8
_SESSION_CHARS = 8
_BATCH = 500


def _ledger_option(command: Callable[..., None]) -> Callable[..., None]:
    option = click.option("--ledger", type=click.Path(path_type=Path), help="The ledger's file.")
    return config_option(option(command))


@click.group()
def tasks() -> None:
    """Look into the ledger, also while a shim runs. What tasks carry is not shown unless asked for."""


@tasks.command("list")
@_ledger_option
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only in this state.")
@click.option("--open", "open_only", is_flag=True, help="Only tasks that have not ended.")
@click.option("--upstream", help="Only of this upstream.")
@click.option("--caller", help="Only of this caller: its hash or the beginning of it.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1), help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@operator_errors
def list_tasks(
    config_file: Path | None, ledger: Path | None, status: str | None, open_only: bool,  # noqa: FBT001 - a flag
    upstream: str | None, caller: str | None, limit: int, as_json: bool,  # noqa: FBT001 - a flag
) -> None:  # fmt: skip
    """List tasks, newest first."""
    path = _config(config_file, ledger).ledger.path
    try:
        with reading(path) as file:
            found, count = file.tasks(Filter(status, upstream, caller, open_only), limit)
    except LedgerFileError as exc:
        fail(str(exc))
    if as_json:
        click.echo(json.dumps([_facts(row) for row in found], indent=2))
        return
    now_ms = SystemClock().now_ms()
    head = ("TASK", "STATUS", "TOOL", "UPSTREAM", "CALLER", "SINCE", "AGE")
    click.echo("\n".join(columns([head, *(_line(row, now_ms) for row in found)], room=terminal_room())))
    if count > len(found):
        click.echo(f"{len(found)} of {count}; see --limit")


@tasks.command("show")
@click.argument("task_id", metavar="ID")
@_ledger_option
@click.option("--payload", is_flag=True, help="Print what the task carries, too: result, error, questions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@operator_errors
def show(task_id: str, config_file: Path | None, ledger: Path | None, payload: bool, as_json: bool) -> None:  # noqa: FBT001 - flags
    """Show a task and its questions. ID is the client's or the upstream's id of it."""
    path = _config(config_file, ledger).ledger.path
    try:
        with reading(path) as file:
            row = file.task(task_id)
            asked = [] if row is None else file.questions(row.pk)
    except LedgerFileError as exc:
        fail(str(exc))
    if row is None:
        fail(f"{path}: no task has the id {task_id!r}")
    facts = _facts(row) | {
        "resultBytes": None if row.result is None else len(row.result),
        "errorBytes": None if row.error is None else len(row.error),
        "questions": [_question(one) for one in asked],
    }
    if payload:
        facts |= {"result": _text(row.result), "error": _text(row.error), "meta": _text(row.meta)}
        for shown, one in zip(facts["questions"], asked, strict=True):
            shown |= {"params": _text(one.params), "response": _text(one.response)}
    click.echo(json.dumps(facts, indent=2) if as_json else "\n".join(_people(facts)))


@tasks.command("prune")
@_ledger_option
@operator_errors
def prune(config_file: Path | None, ledger: Path | None) -> None:
    """Take what is over its time by the config.

    Ended tasks lose their payload first and their row later; a task that has not ended goes only when it
    is older than tasks.max_age_ms. The shim must not run.
    """
    set_up_for_answer()
    config = _config(config_file, ledger)
    try:
        check(config.ledger.path)
    except LedgerFileError as exc:
        fail(str(exc))
    payloads, removed = asyncio.run(_prune(config))
    lost = counted(payloads, "task lost its payload", "tasks lost their payload")
    click.echo(f"{lost}, {counted(removed, 'row was', 'rows were')} removed")


async def _prune(config: Config) -> tuple[int, int]:
    clock = SystemClock()
    sink = _sink(config.audit.path)
    ledger = SqliteLedger(
        config.ledger.path, clock, synchronous=config.ledger.synchronous, lock_wait_ms=0,
        payloads=payloads_of(config, sink),
    )  # fmt: skip
    await ledger.open()
    payloads = removed = 0
    try:
        while True:
            purged = await ledger.purge(
                clock.now_ms(), retention_ms=config.tasks.retention_ms,
                tombstone_ms=config.tasks.tombstone_ms, max_age_ms=config.tasks.max_age_ms,
                idempotency_ms=config.tasks.idempotency_window_ms, session_ms=config.tasks.max_age_ms,
                limit=_BATCH,
            )  # fmt: skip
            for task_id in purged.task_ids:
                sink.emit(TaskPurged(task_id=task_id))
            if not (purged.task_ids or purged.rows):
                return payloads, removed
            payloads += len(purged.task_ids)
            removed += purged.rows
    finally:
        await ledger.close()
        sink.close()


def _sink(path: Path | None) -> FileSink | NullSink:
    try:
        return NullSink() if path is None else FileSink(path, instance=new_instance())
    except OSError as exc:
        fail(f"audit.path: {path}: {exc.strerror}")


def _config(config_file: Path | None, ledger: Path | None) -> Config:
    return read_config(config_file, {"ledger": ledger}, upstream_needed=False)


def _line(row: TaskRow, now_ms: int) -> tuple[str, ...]:
    return (
        row.task_id,
        f"{row.status} (expired)" if row.purged else row.status.value,
        row.tool or "-",
        row.upstream,
        f"{row.caller_kind}:{row.caller[:_CALLER_CHARS]}",
        moment(row.first_seen_ms),
        duration(now_ms - row.first_seen_ms),
    )


def _facts(row: TaskRow) -> dict[str, Any]:
    """Say what is known of a task without what it carries; a session's id is a credential, so it is cut."""
    return {
        "taskId": row.task_id,
        "status": row.status.value,
        "statusMessage": row.status_message,
        "tool": row.tool,
        "upstream": row.upstream,
        "upstreamTaskId": row.upstream_task_id,
        "dialect": row.dialect,
        "local": row.local,
        "session": _cut(row.session_id),
        "drivenByClient": row.driven,
        "clientSession": _cut(row.client_session),
        "clientDialect": row.client_dialect,
        "caller": row.caller,
        "callerKind": row.caller_kind,
        "mayBeAsked": sorted(row.kinds),
        "createdAt": row.created_at,
        "lastUpdatedAt": row.last_updated_at,
        "firstSeen": moment(row.first_seen_ms),
        "lastTouched": moment(row.touched_ms),
        "ended": moment(row.ended_ms) if row.ended_ms is not None else None,
        "ttlMs": row.ttl_ms,
        "pollIntervalMs": row.poll_interval_ms,
        "cancelRequested": row.cancel_requested,
        "expired": row.purged,
    }


def _cut(session_id: str | None) -> str | None:
    return None if session_id is None else session_id[:_SESSION_CHARS] + "..."


def _question(asked: InputRow) -> dict[str, Any]:
    return {
        "key": asked.key,
        "method": asked.method,
        "state": asked.state,
        "asked": moment(asked.asked_ms),
        "answeredBy": asked.by,
    }


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "replace")


def _people(found: dict[str, Any]) -> Iterator[str]:
    questions = found.pop("questions")
    room = terminal_room()
    yield from facts(((key, _cell(value)) for key, value in found.items()), room=room)
    for number, asked in enumerate(questions, start=1):
        yield ""
        yield f"question {number}"
        yield from facts(((key, _cell(value)) for key, value in asked.items()), "  ", room)


def _cell(value: Any) -> str:
    match value:
        case None | []:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(value)
    return str(value)
