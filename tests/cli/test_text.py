"""Tables, as wide as the terminal."""

import pytest

from shim.cli.text import columns, facts, hanging

ROWS = [("CALLER", "KIND", "REQUESTS"), ("ann", "api_key", "12"), ("nightly", "jwt", "3")]
WHOLE = ["CALLER   KIND     REQUESTS", "ann      api_key  12", "nightly  jwt      3"]


@pytest.mark.parametrize(
    ("room", "indent", "expected"),
    [
        (None, "", WHOLE),
        (26, "", WHOLE),
        (25, "", ["CALLER   KIND", "  REQUESTS", "ann      api_key", "  12", "nightly  jwt", "  3"]),
        (
            18,
            "  ",
            ["  CALLER   KIND", "    REQUESTS", "  ann      api_key", "    12", "  nightly  jwt", "    3"],
        ),
        (3, "", ["CALLER", "  KIND", "  REQUESTS", "ann", "  api_key", "  12", "nightly", "  jwt", "  3"]),
    ],
)
def test_a_row_that_has_no_room_goes_on_below(room, indent, expected):
    assert columns(ROWS, indent, room) == expected


@pytest.mark.parametrize(
    ("room", "indent", "expected"),
    [
        (None, "", ["url       http://a", "evidence  no answer came within the time"]),
        (80, "  ", ["  url       http://a", "  evidence  no answer came within the time"]),
        (34, "  ", ["  url       http://a", "  evidence  no answer came within", "            the time"]),
        (1, "", ["url       http://a", "evidence  no answer came", "          within the time"]),
    ],
)
def test_what_is_said_goes_on_below_its_beginning(room, indent, expected):
    assert (
        facts([("url", "http://a"), ("evidence", "no answer came within the time")], indent, room) == expected
    )


def test_a_word_is_never_broken_and_nothing_is_no_line():
    assert hanging("fault: ", f"{'x' * 30} y", 20) == [f"fault: {'x' * 30}", "       y"]
    assert hanging("fault: ", "", 20) == ["fault:"]
    assert facts([]) == []
