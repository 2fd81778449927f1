import pytest

from shim.hub.status import TERMINAL, TRANSITIONS, Status, may_move

W, I, C, F, X = Status  # noqa: E741 - the five, in order


@pytest.mark.rule("HUB-1")
@pytest.mark.parametrize("new", Status)
@pytest.mark.parametrize("old", Status)
def test_moves(old: Status, new: Status) -> None:
    legal = {(W, I), (W, C), (W, F), (W, X), (I, W), (I, C), (I, F), (I, X)}
    assert may_move(old, new) is (old is new or (old, new) in legal)


@pytest.mark.rule("HUB-1")
def test_terminal_states_are_those_without_a_way_on() -> None:
    assert {status for status in Status if not TRANSITIONS[status]} == TERMINAL == {C, F, X}
