"""What is read once."""

import pytest

from shim.hub.memo import remembered


def test_the_same_small_bytes_are_read_once() -> None:
    seen: list[bytes] = []
    read = remembered(lambda data: seen.append(data) or data.decode())
    assert [read(b"a"), read(b"b"), read(b"a")] == ["a", "b", "a"]
    assert seen == [b"a", b"b"]


def test_large_bytes_are_not_kept() -> None:
    seen: list[int] = []
    read = remembered(lambda data: seen.append(len(data)))
    for _ in range(2):
        read(b"x" * 2_049)
    assert seen == [2_049, 2_049]


def test_a_refusal_is_not_kept() -> None:
    asked = iter((ValueError("not now"), None))

    @remembered
    def read(data: bytes) -> bytes:
        if (fault := next(asked)) is not None:
            raise fault
        return data

    with pytest.raises(ValueError, match="not now"):
        read(b"a")
    assert read(b"a") == b"a"
