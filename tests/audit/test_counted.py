"""One and many agree."""

import pytest

from shim.audit.counted import agreeing, counted, part_of


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (counted(0, "caller"), "0 callers"),
        (counted(1, "caller"), "1 caller"),
        (counted(2, "caller"), "2 callers"),
        (counted(1, "task has not ended", "tasks have not ended"), "1 task has not ended"),
        (counted(3, "task has not ended", "tasks have not ended"), "3 tasks have not ended"),
        (agreeing(1, "day"), "day"),
        (agreeing(7, "day"), "days"),
        (part_of(1, 3, "request", "was", "were"), "1 of 3 requests was"),
        (part_of(0, 1, "request", "was", "were"), "0 of 1 request were"),
    ],
)
def test_words_go_with_their_count(said, expected):
    assert said == expected
