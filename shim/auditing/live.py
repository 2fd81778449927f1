"""What is shown while a log is followed. Pure: lines in, a screen out, the time given.

Everything is bounded: ten minutes of counts, so many callers and troubles, the newest of them.
"""

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from shim.audit.printable import printable
from shim.recent import Recent

CORNERS = ("LL", "LM", "ML", "MM")
ELSEWHERE = "-"
"""The corner of what was answered without an upstream."""
_BUCKET_S = 10
_BUCKETS = 60
_MINUTE_BUCKETS = 6
_CALLERS = 500
_TROUBLES = 200
_INSTANCES = 1_000
_FAILED = ("error", "denied")
_TROUBLE = (
    "denied", "task.lost", "input.lost", "session.lost", "upstream.down", "upstream.invalid",
    "hub.illegal_transition", "audit.dropped",
)  # fmt: skip
_NOBODY = "(caller unknown)"
"""Who was turned away before anything told who calls."""
_NO_PERSON = (None, "token", "session", "none")


@dataclass(frozen=True, slots=True)
class Corner:
    """Requests of a corner: of the last minute, of ten minutes in steps of ten seconds, and all seen."""

    name: str
    last_minute: int
    last_ten: int
    failed_last_ten: int
    seen: int
    steps: tuple[int, ...]


@dataclass(slots=True)
class Caller:
    """Who called by the old API."""

    name: str
    client: str
    at: datetime
    requests: int
    what: str
    is_new: bool
    """Whether it was first seen while the log was followed."""


@dataclass(slots=True)
class Trouble:
    """Something that went wrong, and how often in a row."""

    at: datetime
    what: str
    who: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Screen:
    """Everything there is to show."""

    corners: tuple[Corner, ...]
    callers: tuple[Caller, ...]
    troubles: tuple[Trouble, ...]
    lines: int
    unreadable: int
    missed: int
    """Events whose numbers were passed over."""
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class Told:
    """What a line comes to, for who reads lines: a legacy request, or a trouble."""

    at: datetime
    corner: str
    what: str
    who: str
    client: str
    legacy: bool
    failed: bool


class Live:
    """Takes lines and keeps what the screen shows."""

    def __init__(self) -> None:
        self._steps: dict[str, OrderedDict[int, list[int]]] = {}
        self._seen: Counter[str] = Counter()
        self._callers: Recent[str, Caller] = Recent(_CALLERS)
        self._troubles: deque[Trouble] = deque(maxlen=_TROUBLES)
        self._numbers: Recent[str, int] = Recent(_INSTANCES)
        self._lines = self._unreadable = self._missed = 0
        self._newest: datetime | None = None
        self.caught_up = False
        """Set once what was there at the start is read: callers that come later are new."""

    def take(self, line: bytes) -> Told | None:
        """Take a line; give what is worth a line of its own, None for the rest."""
        event = _read(line)
        at = None if event is None else _time(event.get("ts"))
        if event is None or at is None:
            self._unreadable += 1
            return None
        self._lines += 1
        self._number(event)
        self._newest = at if self._newest is None else max(at, self._newest)
        name = event.get("event")
        if name == "request":
            return self._request(event, at)
        if name in _TROUBLE:
            told = Told(
                at, _corner(event), _why(event), _who(event), _client(event), legacy=False, failed=True
            )
            self._trouble(told)
            return told
        return None

    def screen(self, now: datetime) -> Screen:
        """Give what is to be shown at a time."""
        step = int(now.timestamp()) // _BUCKET_S
        names = [*CORNERS, *sorted(set(self._steps) - set(CORNERS))]
        return Screen(
            tuple(self._counted(name, step) for name in names),
            tuple(reversed(self._callers.values())),
            tuple(reversed(self._troubles)),
            self._lines, self._unreadable, self._missed, self._newest,
        )  # fmt: skip

    def _request(self, event: dict[str, Any], at: datetime) -> Told | None:
        corner, failed = _corner(event), event.get("outcome") in _FAILED
        self._seen[corner] += 1
        steps = self._steps.setdefault(corner, OrderedDict())
        counts = steps.setdefault(int(at.timestamp()) // _BUCKET_S, [0, 0])
        counts[0] += 1
        counts[1] += failed
        while len(steps) > 2 * _BUCKETS:
            del steps[min(steps)]
        legacy = bool(event.get("legacy", event.get("era") == "legacy")) and not _is_unidentified(event)
        told = Told(at, corner, _what(event), _who(event), _client(event), legacy, failed)
        if legacy:
            self._caller(event, told)
        if failed:
            self._trouble(told)
        return told if legacy or failed else None

    def _caller(self, event: dict[str, Any], told: Told) -> None:
        key = f"{_person(event)}\n{told.who}"
        known = self._callers.get(key)
        count, is_new = (0, self.caught_up) if known is None else (known.requests, known.is_new)
        self._callers[key] = Caller(told.who, told.client, told.at, count + 1, told.what, is_new)

    def _trouble(self, told: Told) -> None:
        last = self._troubles[-1] if self._troubles else None
        if last is not None and (last.what, last.who) == (told.what, told.who):
            last.at = told.at
            last.times += 1
        else:
            self._troubles.append(Trouble(told.at, told.what, told.who))

    def _number(self, event: dict[str, Any]) -> None:
        instance, seq = event.get("instance"), event.get("seq")
        if not isinstance(instance, str) or not isinstance(seq, int):
            return
        last = self._numbers.get(instance)
        if last is not None:
            self._missed += max(0, seq - last - 1)
        self._numbers[instance] = max(seq, last or 0)

    def _counted(self, name: str, step: int) -> Corner:
        steps = self._steps.get(name) or OrderedDict()
        counts = [steps.get(one, [0, 0]) for one in range(step - _BUCKETS + 1, step + 1)]
        return Corner(
            name,
            sum(count for count, _ in counts[-_MINUTE_BUCKETS:]),
            sum(count for count, _ in counts),
            sum(failed for _, failed in counts),
            self._seen[name],
            tuple(count for count, _ in counts),
        )


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _time(stamp: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _corner(event: dict[str, Any]) -> str:
    found = event.get("corner")
    return found if found in CORNERS else ELSEWHERE


def _is_unidentified(event: dict[str, Any]) -> bool:
    """Tell whether a request was turned away before anything told who calls, as the tables do."""
    said = event.get("unidentified", event.get("caller_kind") is None)
    return event.get("event") == "request" and event.get("outcome") != "ok" and bool(said)


def _person(event: dict[str, Any]) -> str | None:
    """Tell the caller's hash; a token or a session is no person."""
    kind, caller = event.get("caller_kind"), event.get("caller")
    return caller if isinstance(caller, str) and kind not in _NO_PERSON else None


def _client(event: dict[str, Any]) -> str:
    stated = event.get("client")
    client = stated if isinstance(stated, dict) else {}
    parts = [client.get("name") or "(no name)", client.get("version")]
    return printable(" ".join(str(part) for part in parts if part))


def _who(event: dict[str, Any]) -> str:
    person = _person(event)
    if _is_unidentified(event):
        return _NOBODY
    if person is None:
        return _client(event) if "client" in event or event.get("event") == "request" else "-"
    return printable(str(event.get("caller_label") or f"{event['caller_kind']}:{person[:12]}"))


def _what(event: dict[str, Any]) -> str:
    """Say what a request was, and how it failed."""
    parts = [event.get("method") or "-", event.get("tool")]
    if event.get("outcome") in _FAILED:
        parts += [event.get("outcome"), event.get("code"), event.get("http_status")]
    return printable(" ".join(str(part) for part in parts if part is not None))


def _why(event: dict[str, Any]) -> str:
    parts = [
        event.get("event"),
        event.get("upstream"),
        event.get("rule"),
        event.get("reason"),
        event.get("count"),
    ]
    return printable(" ".join(str(part) for part in parts if part is not None))
