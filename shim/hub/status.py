"""The five states of a task and the moves between them (HUB-1).

Theory of operation. A task begins as `working`. It goes to `input_required` and back as often as the
server asks, and from either to one of three terminal states. A terminal state is final: whoever writes
second reads what the first one wrote. `TRANSITIONS` is the whole machine; the diagram in the docs is
drawn from it.
"""

from collections.abc import Mapping
from enum import StrEnum


class Status(StrEnum):
    """A hub task's state, by its SEP-2663 name."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset((Status.COMPLETED, Status.FAILED, Status.CANCELLED))

TRANSITIONS: Mapping[Status, frozenset[Status]] = {
    Status.WORKING: frozenset((Status.INPUT_REQUIRED, *TERMINAL)),
    Status.INPUT_REQUIRED: frozenset((Status.WORKING, *TERMINAL)),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
}


def may_move(old: Status, new: Status) -> bool:
    """Tell whether a task may go from one state to another; staying is always allowed."""
    return old is new or new in TRANSITIONS[old]
