# ruff: noqa: E501 - lines of the shim are quoted whole
"""Conversations in any order: a few in CI, many by `python -m fuzz --minutes 20 conversations`."""

from importlib import import_module

import pytest

from fuzz.conversations import SERVERS, converse
from tests.fuzz.faults import planted

IN_CI = 4
"""Seeds, each of up to three conversations, with each server."""
AT_MOST = 60

pytestmark = pytest.mark.timeout(900)
"""On a machine that does much else; by itself the file takes less than a minute of the CPU."""


@pytest.mark.rule("OWN-CHECK", "KEYS", "HUB-1", "HUB-2", "LL-LIST", "DUR-2", "ML-MRTR", "INPUT-END")
@pytest.mark.parametrize("server", SERVERS)
def test_whatever_comes_in_whatever_order(server: str) -> None:
    converse(server, range(IN_CI))


LOOKED_UP = "(await self._ledger.lookup((await self._ledger.own_task(1)).caller, task_id)).row"
FAULTS = (
    ("old", "ledger.tasks", "WHERE task_id = ? AND caller = ?)", "WHERE task_id = ? AND (caller = ? OR 1))"),
    ("old", "fronts.legacy_verbs", "return await own(self._tasks.room, asked.ctx, task_id)",
     f"return {LOOKED_UP} or await own(self._tasks.room, asked.ctx, task_id)"),
    ("old", "fronts.following", "room.ledger.lookup(ctx.caller.key, task_id)",
     "room.ledger.lookup((await room.ledger.own_task(1)).caller, task_id)"),
    ("new", "fronts.modern_listen", 'nobody listens to")\n            return DROPPED', 'nobody listens to")\n            return None'),
    ("new", "ledger.tasks", "purged_ms IS NULL AND caller = ? AND pk", "purged_ms IS NULL AND (caller = ? OR 1) AND pk"),
    ("old", "upstreams.legacy.groups", "(ctx.caller.key, ctx.kinds), group", "('', ctx.kinds), group"),
    ("old", "upstreams.legacy.pool", "        group = self._groups.of(ctx)\n        if ctx.caller.kind",
     "        group = next(iter(self._groups.by_caller.values()))\n        if ctx.caller.kind"),
    ("old", "tasks.parked", "json.dumps([ctx.caller.key, ", "json.dumps(["),
    ("new", "ledger.inputs", "key = ? AND state = 'outstanding' RETURNING n\"\n)\n_RELEASE", 'key = ? RETURNING n"\n)\n_RELEASE'),
    ("new", "tasks.questions", "asked = known.get(key)", "asked = next(iter(known.values()), None)"),
    ("new", "fronts.sessions", "await self._ledger.add_session(replace(", "(replace("),
    ("old", "tasks.observe", "now_ms > row.first_seen_ms + row.max_ttl_ms", "now_ms > row.first_seen_ms"),
)  # fmt: skip


@pytest.mark.parametrize(("server", "module", "before", "after"), FAULTS)
def test_a_planted_fault_is_found(server: str, module: str, before: str, after: str) -> None:
    with planted(import_module(f"shim.{module}"), before, after):
        try:
            converse(server, range(AT_MOST))
        except Exception:  # noqa: BLE001 - a fault may show as anything
            return
    pytest.fail(f"{AT_MOST} rounds of conversations do not find it")


def test_an_end_that_is_overwritten_is_found() -> None:
    """Three places see to it that an end stays: with one of them it does."""
    tables, observe = import_module("shim.ledger.tasks"), import_module("shim.tasks.observe")
    with (
        planted(tables, "WHERE pk = :pk AND ended_ms IS NULL", "WHERE pk = :pk"),
        planted(observe, "row.status in TERMINAL:", "False:"),
        pytest.raises(Exception, match="end"),
    ):
        converse("old", range(AT_MOST))
