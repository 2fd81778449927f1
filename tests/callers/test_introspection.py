"""Tokens that the provider is asked about (RFC 7662): how often, how long it counts, what if it is away."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from shim.callers import introspection
from shim.config import ConfigError
from tests.callers.conftest import bearer
from tests.callers.door import Doors, until
from tests.provider import AUDIENCE, ISSUER, SECRET, Answer

pytestmark = pytest.mark.rule("OWN-ID")

SECOND_MS = 1_000
DOWN = Answer(b"down", 503)


async def test_the_subject_is_the_caller_and_a_refresh_keeps_it(door: Doors) -> None:
    async with door("introspection") as at:
        first, renewed = [await at.caller(at.provider.opaque("alice")) for _ in "ab"]
        other = await at.caller(at.provider.opaque("bob"))
    assert first.kind == "introspection"
    assert first.key == renewed.key != other.key
    assert first.credential is not None
    assert first.credential.expires_ms == 1_800_003_600_000


async def test_a_token_of_the_same_issuer_and_subject_is_the_same_caller_however_checked(door: Doors) -> None:
    async with door("introspection") as at:
        asked = await at.caller(at.provider.opaque("alice"))
        at.resolver = at.build(at.provider.jwt())
        checked = await at.caller(at.provider.bearer("alice"))
        at.resolver = at.build(at.provider.introspection(caller=["client_id"]))
        client = await at.caller(at.provider.opaque("bob", client_id="alice"))
    assert asked.key == checked.key != client.key


@pytest.mark.parametrize("auth", ["basic", "post", "bearer"])
async def test_the_shim_says_who_it_is(door: Doors, auth: str) -> None:
    secret = "p:w + ü"
    async with door("introspection", auth=auth, client_id="shim:1", client_secret=secret) as at:
        await at.caller(at.provider.opaque("alice", "tok+en/="))
        ((form, sent),) = at.provider.questions
    assert (form["token"], form["token_type_hint"]) == ("tok+en/=", "access_token")
    if auth == "post":
        assert (form["client_id"], form["client_secret"]) == ("shim:1", secret)
        assert "Authorization" not in sent
    elif auth == "bearer":
        assert sent["Authorization"].startswith("Bearer p:w")
    else:
        scheme, pair = sent["Authorization"].split(" ")
        assert (scheme, base64.b64decode(pair)) == ("Basic", b"shim%3A1:p%3Aw+%2B+%C3%BC")
    assert auth == "post" or "client_secret" not in form


async def test_a_good_answer_is_reused_and_not_beyond_the_bound(door: Doors) -> None:
    async with door("introspection") as at:
        given = at.provider.opaque("alice")
        for _ in range(5):
            await at.caller(given)
        assert len(at.provider.questions) == 1
        at.provider.tokens.clear()
        at.clock.at_ms += 60 * SECOND_MS - 1
        await at.caller(given)
        at.clock.at_ms += 1
        assert await at.refusal(given) == (401, "token_inactive")
        assert len(at.provider.questions) == 2


async def test_a_good_answer_is_not_reused_beyond_the_tokens_end(door: Doors) -> None:
    async with door("introspection", cache_ms=3_600_000, leeway_ms=0) as at:
        given = at.provider.opaque("alice", exp=at.provider.now_s() + 10)
        await at.caller(given)
        at.clock.at_ms += 10 * SECOND_MS - 1
        await at.caller(given)
        assert len(at.provider.questions) == 1
        at.clock.at_ms += 1
        assert await at.refusal(given) == (401, "token_expired")


async def test_a_bad_answer_is_reused_for_a_short_while(door: Doors) -> None:
    async with door("introspection") as at:
        for _ in range(5):
            assert await at.refusal(bearer("made-up")) == (401, "token_inactive")
        assert len(at.provider.questions) == 1
        at.provider.opaque("alice", "made-up")
        at.clock.at_ms += 10 * SECOND_MS
        assert (await at.caller(bearer("made-up"))).kind == "introspection"


@pytest.mark.rule("OWN-STORE")
async def test_of_a_bad_token_nothing_is_remembered_but_what_was_wrong(door: Doors) -> None:
    async with door("introspection") as at:
        assert await at.refusal(bearer("made-up")) == (401, "token_inactive")
        assert await at.refusal(bearer("made-up")) == (401, "token_inactive")
        [known] = at.resolver.sources[0]._bad.values()
        assert known.found.__traceback__ is None
        assert known.found.__context__ is None


SAID: dict[str, tuple[dict[str, Any], str | None]] = {
    "active is text": ({"active": "true"}, "undecided"),
    "inactive": ({"active": False}, "token_inactive"),
    "of another issuer": ({"iss": "https://other.example"}, "token_issuer"),
    "for another server": ({"aud": "https://other.example"}, "token_audience"),
    "for nobody": ({"aud": None}, "token_audience"),
    "expired": ({"exp": 1_799_999_969}, "token_expired"),
    "not yet": ({"nbf": 1_800_000_031}, "token_early"),
    "exp is text": ({"exp": "soon"}, "token_claims"),
    "without a subject": ({"sub": None}, "token_claims"),
    "with the issuer": ({"iss": ISSUER}, None),
    "without an end": ({"exp": None}, None),
}


@pytest.mark.parametrize("name", SAID)
async def test_what_the_provider_says_is_held_against_the_config(door: Doors, name: str) -> None:
    said, reason = SAID[name]
    async with door("introspection", audience=[AUDIENCE]) as at:
        given = at.provider.opaque("alice", **{"aud": AUDIENCE, **said})
        if reason == "undecided":
            assert await at.refusal(given) == (503, None)
        elif reason is None:
            assert (await at.caller(given)).kind == "introspection"
        else:
            assert await at.refusal(given) == (401, reason)


BAD = {
    "down": DOWN,
    "unauthorised": Answer(b"", 401),
    "redirect": Answer(b"", 307, {"Location": "/elsewhere"}),
    "garbage": Answer(b"<html>"),
    "list": Answer(b"[true]"),
    "oversized": Answer(b" " * 300_000),
    "slow": Answer(hangs=True),
}


@pytest.mark.parametrize("name", BAD)
async def test_an_outage_is_a_503_and_never_another_caller(door: Doors, name: str) -> None:
    impatient = {"timeout_ms": 50} if name == "slow" else {}
    async with door("introspection") as at:
        known = at.provider.opaque("alice")
        await at.caller(known)
        at.resolver = at.build({**at.provider.introspection(**impatient), "anonymous": True})
        at.provider.introspection_answer = BAD[name]
        assert await at.refusal(at.provider.opaque("bob")) == (503, None)
        at.resolver = at.build(at.provider.introspection())
        at.provider.introspection_answer = None
        assert (await at.caller(at.provider.opaque("bob"))).kind == "introspection"
    assert [type(event).__name__ for event in at.sink.events] == ["ProviderDown", "ProviderUp"]
    assert at.provider.strayed == 0
    assert "opaque" not in str(at.sink.events)
    assert SECRET not in str(at.sink.events)


async def test_who_is_known_goes_on_in_an_outage_for_a_while(door: Doors) -> None:
    async with door("introspection") as at:
        given = at.provider.opaque("alice")
        await at.caller(given)
        at.provider.introspection_answer = DOWN
        at.clock.at_ms += 60 * SECOND_MS - 1
        assert (await at.caller(given)).kind == "introspection"
        at.clock.at_ms += 1
        assert await at.refusal(given) == (503, None)


async def test_who_asks_at_once_asks_once_and_questions_are_bounded(door: Doors) -> None:
    async with door("introspection", at_once=2) as at:
        at.provider.gate.clear()
        alice, bob, carol = [at.provider.opaque(name) for name in ("alice", "bob", "carol")]
        waiting = [asyncio.create_task(at.caller(one)) for one in (alice, alice, bob, alice)]
        await until(lambda: len(at.provider.questions) == 2)
        assert await at.refusal(carol) == (503, None)
        waiting[0].cancel()  # who leaves ends it for nobody else
        at.provider.gate.set()
        found = await asyncio.gather(*waiting[1:])
        assert found[0].key == found[2].key != found[1].key
        assert len(at.provider.questions) == 2
        assert (await at.caller(carol)).kind == "introspection"


async def test_made_up_tokens_push_no_good_one_out(door: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever makes up enough of them brings about a question for each request of everybody."""
    monkeypatch.setattr(introspection, "_REMEMBERED", 3)
    async with door("introspection") as at:
        good = at.provider.opaque("alice")
        assert (await at.caller(good)).kind == "introspection"
        for number in range(5):
            made_up = {"Authorization": f"Bearer made-up-{number}"}
            assert await at.refusal(made_up) == (401, "token_inactive")
        asked = len(at.provider.questions)
        assert (await at.caller(good)).kind == "introspection"
        assert len(at.provider.questions) == asked
        at.provider.tokens[good["Authorization"].removeprefix("Bearer ")] = {"active": False}
        at.clock.at_ms += 61_000
        for _ in range(2):  # what is known of a token is one thing, the newest
            assert await at.refusal(good) == (401, "token_inactive")
        assert len(at.provider.questions) == asked + 1


async def test_tokens_do_not_share_an_answer(door: Doors) -> None:
    async with door("introspection") as at:
        tokens = [at.provider.opaque(f"user-{number}") for number in range(30)]
        found = await asyncio.gather(*map(at.caller, tokens))
        assert len({one.key for one in found}) == 30
        for caller, given in zip(found, tokens, strict=True):
            assert caller.credential is not None
            assert caller.credential.authorization == given["Authorization"]


async def test_a_token_that_is_too_long_is_not_asked_about(door: Doors) -> None:
    async with door("introspection") as at:
        assert await at.refusal(bearer("x" * 16_385)) == (401, "token_size")
        assert at.provider.questions == []


@pytest.mark.parametrize("content", [None, "", "two\nlines", "\x80"])
async def test_a_secret_that_cannot_be_read_is_one_line(
    door: Doors, tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "secret"
    async with door("introspection") as at:
        if content is not None:
            file.write_bytes(content.encode("latin-1"))
        with pytest.raises(ConfigError, match=r"^identity\.introspection\.client_secret_file: "):
            at.build(at.provider.introspection(client_secret=None, client_secret_file=file))
        file.write_text("from-a-file\n")
        at.resolver = at.build(
            at.provider.introspection(client_secret=None, client_secret_file=file, auth="bearer")
        )
        await at.caller(at.provider.opaque("alice"))
        assert at.provider.questions[0][1]["Authorization"] == "Bearer from-a-file"
