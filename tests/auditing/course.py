"""A generator of the log of a whole migration: callers move one after another, a new server comes beside the
old one, a night is missing. What it must say is counted by `truth`."""

import random
from datetime import timedelta

from tests.auditing.world import ENDED, START, Run

DAYS = 42
NEXT_SINCE = 18
"""The day on which the new server comes."""
HOSTILE = '</td><script>fetch("http://evil.test/")</script><img src=x onerror=alert(1)>\u202eexe.\u0007'
_DAY = timedelta(days=1)

# who, kind, label, client, version, the day of leaving the old API, legacy calls on a working day
FLEET = [
    ("a", "jwt", "nightly-export", "mcp", "1.30.0", 44, 18),
    ("b", "jwt", "claims-bot", "mcp", "1.28.1", 38, 26),
    ("c", "api_key", "render-farm", "fastmcp", "2.14.0", 33, 34),
    ("d", "api_key", "ci-main", "fastmcp", "2.14.0", 29, 21),
    ("e", "jwt", "design-review", "mcp-typescript", "1.25.2", 27, 15),
    ("f", "header", "tenant-ops", "mcp", "1.30.0", 24, 13),
    ("0", "jwt", "forecast", "mcp", "1.26.0", 20, 17),
    ("1", "api_key", "ticket-sync", "mcp-typescript", "1.22.0", 15, 11),
    ("2", "jwt", "labs", "fastmcp", "2.12.4", 10, 9),
    ("3", "token", None, "in-house-cli", "0.9", 41, 4),
    ("4", "jwt", "docs-search", "mcp", "1.30.0", 6, 8),
    ("5", "session", None, HOSTILE, "1.0", 31, 3),
]
FEATURES = {
    "mcp": ("session", "task param", "tasks/result", "server request"),
    "fastmcp": ("session", "task param", "tasks/list"),
    "mcp-typescript": ("session", "task param", "tasks/result", "tasks/list"),
    "in-house-cli": ("session", "tasks/list"),
    HOSTILE: ("session",),
}
TOOLS = ("render", "export", "summarise", "resize")
_METHODS = ("tools/call", "tools/call", "tools/call", "tasks/result", "tasks/list", "ping")
_MOVED = {"mcp": "2.3.0", "fastmcp": "4.1.4", "mcp-typescript": "2.2.0"}


def course(seed: int = 1) -> Run:
    """Live through DAYS days and stop."""
    rng = random.Random(seed)  # noqa: S311 - a reproducible log
    run = Run("course", START)
    run.start()
    for day in range(DAYS):
        _day(run, rng, day)
    run.stop()
    return run


def _day(run, rng, day):
    working = (START + day * _DAY).weekday() < 5
    calls = {}
    for one in FLEET:
        count = round(one[-1] * (rng.uniform(0.7, 1.3) if working else 0.25))
        for _ in range(count):
            calls.setdefault(rng.randrange(6 * 60, 22 * 60), []).append(one)
    for minute in range(1440):
        run.at = START + day * _DAY + timedelta(minutes=minute)
        silent = day == 24 and 60 <= minute < 205
        if (day or minute) and not silent:
            run.alive()
        for one in calls.get(minute, ()):
            run.at += timedelta(milliseconds=rng.randrange(1, 4000))
            _call(run, rng, day, one)


def _call(run, rng, day, one):
    letter, kind, label, client, version, leaves, _ = one
    legacy = day < leaves and not (day > leaves - 5 and rng.random() < 0.3)
    new = day >= NEXT_SINCE and rng.random() < min(0.9, (day - NEXT_SINCE + 2) / 20)
    if not legacy and client in _MOVED:
        version = _MOVED[client]
    era, upstream = ("legacy" if legacy else "modern"), ("next" if new else "main")
    around = {
        "caller": letter * 64, "caller_kind": kind, **({"caller_label": label} if label else {}),
        "client": {"name": client, "version": version}, "era": era, "upstream": upstream,
        "upstream_era": "modern" if new else "legacy",
        "corner": ("L" if legacy else "M") + ("M" if new else "L"),
    }  # fmt: skip
    method = rng.choice(_METHODS) if legacy else rng.choice(_METHODS[:3])
    failed = rng.random() < (0.012 if new else 0.02)
    known = FEATURES[client] if legacy else ()
    used = known[: rng.randrange(1, len(known) + 1)] if known else ()
    run.emit(
        "request", **around, legacy=legacy, legacy_features=used,
        tool=rng.choice(TOOLS) if method == "tools/call" else None,
        code=-32603 if failed else None,
        **{
            **ENDED, "method": method, "outcome": "error" if failed else "ok",
            "upstream_ms": round(rng.lognormvariate(3.1 if new else 3.6, 0.9), 1),
        },
    )  # fmt: skip
    if method == "tools/call" and not new and day >= NEXT_SINCE and rng.random() < 0.3:
        _shadow(run, rng, around)
    if method == "tools/call" and rng.random() < 0.45:
        _task(run, rng, around)
    if legacy != (not new) and rng.random() < 0.12:
        run.emit(
            "loss", **around, rule="ML-STATUS" if not legacy else "LM-TTL", field=rng.choice(["ttl", "_meta"])
        )
    if rng.random() < 0.03:
        run.emit("lenient", **around, rule="CS-STATE", detail=rng.choice(["status: Done", "ttl: string"]))


def _shadow(run, rng, around):
    copied = {**around, "tool": rng.choice(TOOLS[1:3]), "other": "next"}
    outcome = rng.choices(["same", "different", "skipped"], [90, 8, 2])[0]
    run.emit(
        "shadow.compared",
        **copied,
        outcome=outcome,
        count=1,
        **({"reason": "timeout"} if outcome == "skipped" else {}),
    )
    if outcome == "different":
        path, kind = rng.choice(
            [("structuredContent.pages[].size", "value"), ("content[].text.title", "missing")]
        )
        run.emit("shadow.diff", **copied, path=path, kind=kind, count=rng.randrange(1, 4))


def _task(run, rng, around):
    task_id = f"task-{len(run.events)}"
    run.emit("task.created", **around, task_id=task_id, via=around["corner"], to="working")
    dice = rng.random()
    if dice < 0.01:
        run.emit("task.lost", **around, task_id=task_id, reason="unknown_twice")
        return
    to = "completed" if dice < 0.93 else "failed" if dice < 0.97 else "cancelled"
    ms = round(rng.lognormvariate(9.2 if around["upstream"] == "next" else 9.7, 1.1))
    run.emit("task.ended", **around, task_id=task_id, to=to, age_ms=ms)
