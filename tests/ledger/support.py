"""Records and a clock for the ledger's tests."""

import sqlite3
from pathlib import Path
from typing import Any

from shim.hub.status import Status
from shim.ledger.records import IdemRow, InputRow, NewTask, Observed, SessionRow
from shim.ledger.sqlite import SqliteLedger

ALICE, BOB = "hash-of-alice", "hash-of-bob"

made: list[SqliteLedger] = []
"""Every ledger of the running test."""


class FakeClock:
    """Time that passes only where someone sleeps, or a test says so."""

    def __init__(self) -> None:
        self.at_ms = 1_000_000.0

    def now_ms(self) -> int:
        return int(self.at_ms)

    def ticks_ms(self) -> float:
        return self.at_ms

    async def sleep_ms(self, duration_ms: float) -> None:
        self.at_ms += duration_ms


def ledger_at(path: Path, clock: FakeClock | None = None, **options: Any) -> SqliteLedger:
    """Give a ledger that does not wait for the disk, unless told to; the test's end closes it."""
    ledger = SqliteLedger(path, clock or FakeClock(), **{"synchronous": "off", "lock_wait_ms": 0, **options})
    made.append(ledger)
    return ledger


def new_task(task_id: str, **fields: Any) -> NewTask:
    """Give a task of Alice's."""
    caller = fields.get("caller", ALICE)
    base: dict[str, Any] = {
        "task_id": task_id, "upstream": "main", "upstream_task_id": f"up-{task_id}",
        "dialect": "experimental", "session_id": "s-1", "driven": False, "caller": caller,
        "caller_kind": "none" if caller == "none" else "api_key",
        "created_at": "2026-11-30T00:00:00Z", "last_updated_at": "2026-11-30T00:00:00Z",
        "ttl_ms": 60_000, "poll_interval_ms": 1_000, "first_seen_ms": 1_000,
    }  # fmt: skip
    return NewTask(**{**base, **fields})


def new_session(session_id: str, **fields: Any) -> SessionRow:
    """Give a session of Alice's."""
    base: dict[str, Any] = {
        "session_id": session_id, "upstream": "main", "caller": ALICE, "caller_kind": "api_key",
        "side": "pool", "dialect": None, "client_name": "c", "client_version": "1",
        "kinds": frozenset({"elicitation", "roots"}),
        "version": "2025-11-25", "init": b'{"a":1}', "created_ms": 1_000, "used_ms": 1_000,
    }  # fmt: skip
    return SessionRow(**{**base, **fields})


def new_input(task_pk: int, key: str, **fields: Any) -> InputRow:
    """Give a question."""
    base: dict[str, Any] = {
        "task_pk": task_pk, "key": key, "method": "elicitation/create", "params": b'{"message":"?"}',
        "kind": "elicitation", "upstream_id": None, "session_id": None, "asked_ms": 1_000,
    }  # fmt: skip
    return InputRow(**{**base, **fields})


def new_call(key: str, **fields: Any) -> IdemRow:
    """Give a keyed call of Alice's."""
    base: dict[str, Any] = {
        "caller": ALICE, "key": key, "body_hash": "h", "state": "pending", "answer": None, "is_error": False,
        "created_ms": 1_000, "instance": "i-1",
    }  # fmt: skip
    return IdemRow(**{**base, **fields})


async def see(ledger: SqliteLedger, pk: int, status: Status, **fields: Any) -> Observed:
    """Let the ledger take an observation."""
    base: dict[str, Any] = {
        "status_message": None, "last_updated_at": None, "ttl_ms": 60_000, "poll_interval_ms": 1_000,
        "now_ms": 2_000,
    }  # fmt: skip
    return await ledger.observe(pk, status=status, **{**base, **fields})


async def purge_at(ledger: SqliteLedger, now_ms: int, **fields: Any) -> tuple[set[str], int]:
    """Purge; give the ids whose payload went and the number of rows that went."""
    base: dict[str, Any] = {
        "retention_ms": 10_000, "tombstone_ms": 5_000, "max_age_ms": 1_000_000, "idempotency_ms": 20_000,
        "session_ms": 30_000, "limit": 100,
    }  # fmt: skip
    purged = await ledger.purge(now_ms, **{**base, **fields})
    return set(purged.task_ids), purged.rows


def on_disk(path: Path, sql: str, *values: Any, **named: Any) -> list[tuple[Any, ...]]:
    """Read the file past the ledger and its memory."""
    db = sqlite3.connect(path)
    try:
        with db:
            return db.execute(sql, named or values).fetchall()
    finally:
        db.close()
