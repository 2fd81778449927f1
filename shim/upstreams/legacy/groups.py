"""The sessions of a pool that are at hand, by whose they are."""

import asyncio
from dataclasses import dataclass, field

from shim.upstreams.base import Context
from shim.upstreams.legacy.session import LegacySession


@dataclass(slots=True)
class Group:
    """The sessions of one caller with one set of question kinds."""

    sessions: dict[str, LegacySession] = field(default_factory=dict)
    opening: int = 0
    """How many are being opened."""
    restored: bool = False
    """True once those of an earlier run were taken up."""
    heir: LegacySession | None = None
    """The one that is asked in the place of those that were lost."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Groups:
    """Finds sessions by caller and by id."""

    def __init__(self) -> None:
        self.by_caller: dict[tuple[str, frozenset[str]], Group] = {}
        """By the caller's key and the question kinds."""
        self.sessions: dict[str, LegacySession] = {}
        """By id."""

    def of(self, ctx: Context, group: Group | None = None) -> Group:
        """Give the group of a caller: the one that is there, else the given or a new one."""
        return self.by_caller.setdefault((ctx.caller.key, ctx.kinds), group or Group())

    def count(self, caller: str) -> int:
        """Count the sessions of a caller, those that are being opened too."""
        return sum(
            len(one.sessions) + one.opening for (key, _), one in self.by_caller.items() if key == caller
        )

    def keep(self, group: Group, session: LegacySession) -> None:
        """Take a session in."""
        group.sessions[session.id] = session
        self.sessions[session.id] = session

    def forget(self, session: LegacySession) -> None:
        """Let a session go."""
        self.sessions.pop(session.id, None)
        for group in self.by_caller.values():
            if group.sessions.pop(session.id, None) is not None:
                break

    def forget_empty(self) -> None:
        """Forget the callers that have no session: what one has of lost ones stays in memory with it."""
        self.by_caller = {key: one for key, one in self.by_caller.items() if one.sessions or one.opening}
