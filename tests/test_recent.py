"""The mapping that cannot grow."""

from shim.recent import Recent


def test_it_keeps_what_was_written_last():
    kept = Recent[str, int](2)
    for number, name in enumerate("aba"):
        kept[name] = number
    assert dict(kept) == {"b": 1, "a": 2}
    kept.setdefault("c", 3)
    assert list(kept) == ["a", "c"]
    kept.get("a")  # reading alone does not count
    kept["d"] = 4
    assert list(kept) == ["c", "d"]
