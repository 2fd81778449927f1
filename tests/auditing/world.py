"""A generator of logs with known truth: events as plain dicts, and files of them as they come in practice."""

import gzip
import json
import random
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from shim.audit.events import make

START = datetime(2026, 11, 2)  # noqa: DTZ001 - UTC without saying so, as in the package
MINUTE = timedelta(minutes=1)

PEOPLE = [
    ("jwt", "a" * 64, None),
    ("jwt", "b" * 64, None),
    ("api_key", "c" * 64, "nightly"),
    ("header", "d" * 64, None),
    ("token", "e" * 64, None),
    ("token", "f" * 64, None),
    ("session", "9" * 64, None),
    ("none", "0" * 64, None),
]
SOFTWARE = [("mcp", "1.30.0"), ("mcp", "2.3.0"), ("fastmcp", "2.1"), ("own", None), (None, None)]
UPSTREAMS = [("main", "legacy"), ("next", "modern")]
TOOLS = [None, "resize", "deploy", 't\'ool; "x" é']
DENIED = [
    {"reason": "not_owner"},
    {"reason": "unknown_task"},
    {"reason": "limit", "limit": "limits.sessions"},
]
FAULTS = ["the upstream did not answer in time", "the upstream answered HTTP 500", None]
FEATURES = ["session", "task param", "tasks/list", "tasks/result", "server request"]


class Run:
    """A process's run: numbers its events and stamps them."""

    def __init__(self, instance: str, at: datetime) -> None:
        self.instance = instance
        self.at = at
        self.events: list[dict[str, Any]] = []

    def emit(self, name: str, /, **fields: Any) -> dict[str, Any]:
        body = msgspec.json.decode(msgspec.json.encode(make(name, fields)))
        event = {
            "v": 1, "seq": len(self.events) + 1, "ts": f"{self.at:%Y-%m-%dT%H:%M:%S.%fZ}",
            "instance": self.instance, **body,
        }  # fmt: skip
        self.events.append(event)
        return event

    def alive(self, **fields: Any) -> None:
        self.emit("instance.alive", **{"requests": {}, "sessions": 0, "waiting": (), "dropped": 0, **fields})

    def start(self) -> None:
        self.emit("instance.started", version="0.1.0", config_digest="x")
        self.alive()

    def stop(self) -> None:
        self.alive()
        self.emit("instance.stopped", version="0.1.0", config_digest="x")

    def call(self, *, legacy: bool = True, who: int = 0, software: int = 0, **fields: Any) -> dict[str, Any]:
        """End a request."""
        return self.emit("request", **context(legacy, who, software), **{**ENDED, "legacy": legacy, **fields})

    def live(self, minutes: int) -> None:
        """Let minutes pass, each with its sign of life."""
        for _ in range(minutes):
            self.at += MINUTE
            self.alive()


ENDED = {
    "outcome": "ok", "ms": 1.5, "upstream_ms": 1.0, "upstream_calls": 1, "bytes_in": 10, "bytes_out": 20,
    "rules": (), "method": "tools/call", "http_status": 200,
}  # fmt: skip


def context(legacy, who, software, upstream=0):
    kind, caller, label = PEOPLE[who]
    name, version = SOFTWARE[software]
    era = "legacy" if legacy else "modern"
    where, upstream_era = UPSTREAMS[upstream]
    stated = {} if name is None else {"client": {"name": name, **({"version": version} if version else {})}}
    return {
        "caller": caller, "caller_kind": kind, **({"caller_label": label} if label else {}), **stated,
        "era": era, "upstream": where, "upstream_era": upstream_era,
        "corner": (era[0] + upstream_era[0]).upper(),
    }  # fmt: skip


def busy(seed: int, events: int) -> list[Run]:
    """Two runs at once with everything in them that a table asks for."""
    rng = random.Random(seed)  # noqa: S311 - a reproducible log
    runs = [Run(f"instance-{n}-{seed}", START) for n in range(2)]
    for run in runs:
        run.start()
    open_tasks: list[tuple[str, dict[str, Any]]] = []
    for number in range(events):
        run = rng.choice(runs)
        run.at += timedelta(milliseconds=rng.randrange(1, 90_000))
        legacy = rng.random() < 0.4
        around = context(legacy, rng.randrange(len(PEOPLE)), rng.randrange(len(SOFTWARE)), rng.randrange(2))
        if rng.random() < 0.05:
            around = {}
        dice = rng.random()
        if dice < 0.1:
            known = {} if number % 3 else context(legacy, 6, 4, 0)  # a session that does not count
            run.emit(
                "request", **{"era": rng.choice(["legacy", "modern", None]), **known},
                **{**ENDED, "outcome": rng.choice(["denied", "error", "disconnected"]), "http_status": 401},
                reason=rng.choice(["credential", "token_expired", None]), legacy=legacy,
                legacy_features=("no session",) * legacy, unidentified=True,
            )  # fmt: skip
        elif dice < 0.6:
            outcome = rng.choice(["ok", "ok", "ok", "error", "denied", "cancelled"])
            method = rng.choice(["tools/call", "tasks/get", "tasks/list", None])
            run.emit(
                "request", **around,
                **{**ENDED, "outcome": outcome, "method": method, "upstream_ms": rng.randrange(20_000) / 10},
                tool=rng.choice(TOOLS) if method == "tools/call" else None,
                code=rng.choice([-32602, -32603]) if outcome == "error" else None,
                fault=rng.choice(FAULTS) if outcome == "error" else None,
                legacy=legacy, legacy_features=tuple(rng.sample(FEATURES, rng.randrange(4) * legacy)),
            )  # fmt: skip
        elif dice < 0.65:
            run.emit("loss", **around, rule=rng.choice(["ML-A", "ML-B"]), field=rng.choice(["ttl", "meta"]))
        elif dice < 0.7:
            run.emit("lenient", **around, rule="CS-X", detail=rng.choice(["status: Done", "ttl: string"]))
        elif dice < 0.75:
            run.emit("denied", **around, **rng.choice(DENIED))
        elif dice < 0.78:
            run.emit("upstream.down", upstream="main", evidence=rng.choice(["HTTP 502", "no route"]))
        elif dice < 0.88 or not open_tasks:
            open_tasks.append((f"task-{number}", around))
            run.emit(
                "task.created", **around, task_id=f"task-{number}", via=around.get("corner"), to="working"
            )
        else:
            task_id, of = open_tasks[rng.randrange(len(open_tasks))]
            # the log of a task goes on where it began, and its time too
            run = runs[0] if len(runs[0].events) % 2 else runs[1]
            run.at = max(one.at for one in runs) + MINUTE
            to = rng.choice(["completed", "failed", "cancelled", "lost", "input_required"])
            if to == "input_required":
                run.emit("task.status", **of, task_id=task_id, to=to)
                continue
            open_tasks = [one for one in open_tasks if one[0] != task_id]
            if to == "lost":
                run.emit("task.lost", task_id=task_id, reason="unknown_twice")
            else:
                run.emit("task.ended", **of, task_id=task_id, to=to, age_ms=rng.randrange(100_000))
    _shadow(runs, rng)
    return runs


def _shadow(runs: list[Run], rng: random.Random) -> None:
    """Compare some calls, each with what was found."""
    for number in range(150):
        run = runs[number % 2]
        run.at += timedelta(seconds=1)
        around = {
            **context(number % 3 == 0, rng.randrange(len(PEOPLE)), 0, rng.randrange(2)),
            "other": "third",
        }
        tool, outcome = rng.choice(TOOLS[1:]), rng.choice(["same", "different", "skipped"])
        reason = {"reason": rng.choice(["asked", "timeout"])} if outcome == "skipped" else {}
        run.emit(
            "shadow.compared", upstream=around["upstream"], other="third", tool=tool, outcome=outcome,
            count=rng.randrange(1, 9), **reason,
        )  # fmt: skip
        for _ in range(rng.randrange(1, 4) if outcome == "different" else 0):
            path, kind = rng.choice(["a.b[]", "c"]), rng.choice(["value", "missing"])
            run.emit("shadow.diff", **around, tool=tool, path=path, kind=kind, count=rng.randrange(1, 5))


def lines(events: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for event in events:
        yield json.dumps(event, ensure_ascii=False).encode() + b"\n"


def write(path, events, tail=b""):
    """Write a file of them, packed if its name says so."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wb") as file:
        file.writelines(lines(events))
        file.write(tail)
    return str(path)


def at(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["ts"]).replace(tzinfo=None)
