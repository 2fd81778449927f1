"""The cursor of a list: only its own text, and only from the caller that it was given to."""

from types import SimpleNamespace
from typing import Any, cast

from fuzz.source import Source
from shim.callers.keys import Keys
from shim.tasks.listing import Listing
from shim.wire.errors import INVALID_PARAMS, ClientFault

SEEDS = (
    b"\0\0\x017\0", b"\0\1\x017\0", b"\1\0\x0217\x05\x01", b"\0\0\x011\x80\xff", b"\2\0\x011abc", b"\3\0\x011\x01=", b"\4\0\x011", b"\1\0\x011\x0aC", b"\1\0\x011\x17=",
)  # fmt: skip
WORDS = (b"=", b"-", b"_", b"A", b"\n", b"\0", b"\xc3\xa9", b"\xff", b"\xed\xa0\x80")
_NEW, _OLD, _FOREIGN = (letter * 32 for letter in (b"n", b"o", b"f"))


def check(data: bytes) -> None:
    """Give a cursor to one caller, change it or not, and open it for another or the same."""
    source = Source(data)
    way, other, pk = source.byte() % 5, source.byte() % 2, int.from_bytes(source.short()[:8]) % 2**63
    alice, bob = _of("alice"), _of("bob")
    keys = Keys([_NEW, _OLD])
    listing = Listing(cast("Any", None), cast("Any", None), keys)
    given = listing._seal(alice, pk)
    assert _opened(listing, alice, given) == pk
    assert given.isascii()
    assert given.replace("-", "").replace("_", "").isalnum(), "a cursor is no plain text"
    asking, text, good = (bob if other else alice), given, not other
    if way == 1:
        text = _altered(given, source.rest())
    elif way == 2:
        text = source.rest().decode("utf-8", "surrogateescape")
    elif way == 3:
        text = Keys([_FOREIGN]).sign("cursor", asking.caller.key, str(pk))
    elif way == 4:
        text = keys.sign("requestState", asking.caller.key, str(pk))
    assert _opened(listing, asking, text) == (pk if good and text == given else None), (
        "a foreign cursor is opened"
    )
    assert _opened(listing, alice, Keys([_OLD]).sign("cursor", "alice", str(pk))) == pk, (
        "an old key ceases to count"
    )


def _altered(text: str, how: bytes) -> str:
    """Give a text with characters changed, put in or left out."""
    characters = list(text)
    for place, change in zip(how[::2], how[1::2], strict=False):
        at = place % (len(characters) + 1)
        characters[at : at + change % 3] = [chr(change)] * (change % 5 > 0)
    return "".join(characters)


def _of(key: str) -> Any:
    return SimpleNamespace(caller=SimpleNamespace(key=key))


def _opened(listing: Listing, ctx: Any, text: str) -> int | None:
    try:
        return listing._open(ctx, text)
    except ClientFault as fault:
        assert fault.code == INVALID_PARAMS
        return None
