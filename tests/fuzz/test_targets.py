"""Each target briefly, with no coverage to guide it: the same inputs in the same order each time."""

from itertools import islice

import pytest

from fuzz.keep import minimised, ways
from fuzz.mutate import inputs
from fuzz.targets import CORPORA, NAMES, corpus, target

RUNS = 400
SEED = 7


@pytest.mark.parametrize("name", NAMES)
def test_a_target_finds_nothing(name: str) -> None:
    one = target(name)
    kept = corpus(name)
    assert len(kept) >= len(one.SEEDS) > 0
    for data in kept:
        one.check(data)
    for data in islice(inputs(kept, one.WORDS, SEED), RUNS):
        one.check(data)


def test_the_inputs_are_the_same_for_the_same_seed_only() -> None:
    first, again, other = (list(islice(inputs([b"abc"], [b"w"], seed), 50)) for seed in (1, 1, 2))
    assert first == again != other


def test_every_corpus_has_its_target() -> None:
    assert {folder.name for folder in CORPORA.iterdir()} <= set(NAMES)


def test_what_takes_no_new_way_is_not_kept() -> None:
    taken = ways(target("sse").check, b"\1\1\0data:\r\r")
    assert taken
    assert all("/shim/" in file for file, _, _ in taken)
    assert minimised("sse", target("sse").SEEDS) == []
