import asyncio

import pytest

from shim.ledger.cache import Recent


def kept(cache: Recent[str, str], keys: str = "abcd") -> str:
    return "".join(key for key in keys if key in cache._values)


def test_what_was_used_longest_ago_goes_first() -> None:
    cache = Recent[str, str](3)
    for key in "abc":
        cache.put(key, key)
    assert cache.get("a") == "a"
    cache.put("d", "d")
    assert kept(cache) == "acd"


def test_weight_is_bounded_too() -> None:
    cache = Recent[str, str](10, most_weight=10, weigh=len)
    cache.put("a", "1234")
    cache.put("b", "1234")
    cache.put("a", "12")
    cache.put("c", "1234")
    assert kept(cache) == "abc"
    cache.put("d", "1")
    assert kept(cache) == "acd"
    cache.drop("a")
    cache.put("b", "12345")
    assert kept(cache) == "bcd"
    assert cache.put("a", "x" * 11) == "x" * 11
    assert kept(cache) == ""
    cache.put("a", "1")
    assert kept(cache) == "a"


class Disk:
    """A read that ends when the test says so."""

    def __init__(self, value: str | None) -> None:
        self.value = value
        self.reads = 0
        self.gate = asyncio.Event()

    async def read(self) -> str | None:
        value = self.value
        self.reads += 1
        await self.gate.wait()
        return value


async def test_a_value_is_read_once() -> None:
    cache, disk = Recent[str, str](3), Disk("old")
    disk.gate.set()
    assert [await cache.get_or_read("a", disk.read) for _ in range(3)] == ["old"] * 3
    assert disk.reads == 1


@pytest.mark.parametrize(("write", "given", "left"), [("put", "new", "a"), ("drop", "old", "")])
async def test_a_read_that_began_before_a_write_is_not_kept(write: str, given: str, left: str) -> None:
    cache, disk = Recent[str, str](3), Disk("old")
    reading = asyncio.create_task(cache.get_or_read("a", disk.read))
    await asyncio.sleep(0)
    if write == "put":
        cache.put("a", "new")
    else:
        cache.drop("a")
    disk.gate.set()
    assert await reading == given
    assert kept(cache) == left
    assert cache.get("a") in {None, "new"}


async def test_a_read_that_broke_leaves_nothing_behind() -> None:
    cache = Recent[str, str](3)

    async def broken() -> str:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - nothing else to match
        await cache.get_or_read("a", broken)
    assert not cache._reading


async def test_nothing_found_is_not_kept() -> None:
    cache, disk = Recent[str, str](3), Disk(None)
    disk.gate.set()
    assert await cache.get_or_read("a", disk.read) is None
    disk.value = "there now"
    assert await cache.get_or_read("a", disk.read) == "there now"
