"""IDS: what the shim makes is never made twice."""

import json

import pytest

from shim.wire.ids import IdMaker


@pytest.mark.rule("IDS")
def test_ids_are_strings_that_name_the_epoch() -> None:
    ids = IdMaker(7)
    assert [ids.next(), ids.next()] == [b'"ts-7-1"', b'"ts-7-2"']


@pytest.mark.rule("IDS")
def test_no_id_is_made_twice_over_epochs() -> None:
    makers = [IdMaker(epoch) for epoch in (1, 2, 11)]
    made = [json.loads(maker.next()) for maker in makers for _ in range(1_000)]
    assert len(set(made)) == len(made)
