"""Tables, as wide as the terminal."""

import pytest

from shim.cli.text import columns

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
