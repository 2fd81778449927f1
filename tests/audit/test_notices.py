"""What goes wrong again and again is said at once, then once a minute, with how often it was left out."""

from structlog.testing import capture_logs

from shim.audit.notices import Notices
from tests.corners.ml import HandClock

MINUTE_MS = 60_000


def test_each_kind_is_said_at_once_and_then_once_a_minute() -> None:
    clock = HandClock()
    notices = Notices(clock)
    with capture_logs() as logs:
        for about in ("one", "one", "other", "one"):
            notices.warn("it fails", about, about=about)
        clock.advance(MINUTE_MS - 1)
        notices.warn("it fails", "one", about="one")
        clock.advance(1)
        notices.warn("it fails", "one", about="one")
        notices.warn("something else", "one", about="one")
    assert [(one["event"], one["about"], one.get("more")) for one in logs] == [
        ("it fails", "one", None),
        ("it fails", "other", None),
        ("it fails", "one", 3),
        ("something else", "one", None),
    ]


def test_kinds_that_are_many_take_no_more_room() -> None:
    notices = Notices(HandClock())
    with capture_logs() as logs:
        for number in range(1_100):
            notices.warn("it fails", number)
        notices.warn("it fails", 1_099)
        notices.warn("it fails", 0)  # long forgotten
    assert len(logs) == 1_101
