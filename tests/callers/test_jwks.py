"""A provider's keys over rotations and outages: nobody is locked out, nobody is let in (OWN-ID)."""

import asyncio
import json
from typing import Any

import jwt
import pytest

from shim.callers.jwk import KeySetError, read_keys
from tests.callers.door import Doors, until
from tests.provider import Answer, private_key, public_jwk

pytestmark = pytest.mark.rule("OWN-ID")

SECOND_MS = 1_000
DOWN = Answer(b"down", 503)


async def test_keys_are_fetched_once_for_all_who_come_at_once(door: Doors) -> None:
    async with door() as at:
        tokens = [at.provider.bearer(f"user-{number}") for number in range(20)]
        await asyncio.gather(*map(at.caller, tokens))
        assert at.provider.fetches == 1
    assert at.outcomes == [("jwks", "ok")]


async def test_a_new_key_is_found_by_the_first_token_that_it_signed(door: Doors) -> None:
    async with door() as at:
        await at.caller(at.provider.bearer())
        at.provider.rotate("k2", "k1")
        at.clock.at_ms += 10 * SECOND_MS
        assert (await at.caller(at.provider.bearer(kid="k2"))).kind == "jwt"
        assert (await at.caller(at.provider.bearer(kid="k1"))).kind == "jwt"
        assert at.provider.fetches == 2


async def test_made_up_keys_bring_few_fetches_about(door: Doors) -> None:
    async with door() as at:
        await at.caller(at.provider.bearer())
        for number in range(50):
            assert await at.refusal(at.provider.bearer(kid=f"made-up-{number % 3}")) == (401, "token_key")
            at.clock.at_ms += SECOND_MS
        assert at.provider.fetches == 5  # the first one and one each ten seconds


async def test_an_old_key_counts_for_a_while_and_then_no_more(door: Doors) -> None:
    async with door() as at:
        old = at.provider.bearer(kid="k1")
        await at.caller(old)
        at.provider.rotate("k2")
        at.clock.at_ms += 10 * SECOND_MS
        await at.caller(at.provider.bearer(kid="k2"))
        assert (await at.caller(old)).kind == "jwt"
        assert (await at.caller(at.provider.bearer("bob", kid="k1"))).kind == "jwt"
        at.clock.at_ms += 600 * SECOND_MS
        assert await at.refusal(old) == (401, "token_key")  # although it was found good before


async def test_after_a_reload_only_listed_keys_count(door: Doors) -> None:
    async with door() as at:
        old, identity = at.provider.bearer(kid="k1"), at.provider.jwt()
        await at.caller(old)
        at.provider.rotate("k2")
        at.clock.at_ms += 10 * SECOND_MS
        await at.caller(at.provider.bearer(kid="k2"))
        at.resolver = at.build(identity)
        assert await at.refusal(old) == (401, "token_key")
        at.provider.keys_answer = DOWN
        at.resolver = at.build(identity)  # and a reload in an outage keeps what there is
        assert (await at.caller(at.provider.bearer(kid="k2"))).kind == "jwt"


async def test_a_reload_in_the_middle_of_each_fetch_of_a_request_leaves_it_an_answer(door: Doors) -> None:
    impatient = {"timeout_ms": 50}
    async with door(**impatient) as at:
        at.provider.keys_answer = Answer(hangs=True)
        asking = asyncio.create_task(at.refusal(at.provider.bearer()))
        for fetch in (1, 2):
            await until(lambda fetch=fetch: at.provider.fetches == fetch)
            at.resolver = at.build(at.provider.jwt(**impatient))
        assert await asking == (503, None)


async def test_keys_are_looked_for_again_beside_the_requests(door: Doors) -> None:
    async with door() as at:
        await at.caller(at.provider.bearer())
        at.provider.keys_answer = Answer(hangs=True)
        at.clock.at_ms += 300 * SECOND_MS
        assert (await at.caller(at.provider.bearer("bob"))).kind == "jwt"  # nobody waits for it
        await until(lambda: at.provider.fetches == 2)


async def test_an_outage_locks_nobody_out_while_the_keys_are_kept(door: Doors) -> None:
    async with door() as at:
        await at.caller(at.provider.bearer())
        at.provider.keys_answer = DOWN
        for hour in range(23):
            at.clock.at_ms += 3_600 * SECOND_MS
            assert (await at.caller(at.provider.bearer(f"user-{hour}"))).kind == "jwt"
            ring = at.resolver.sources[0]._ring
            await until(lambda ring=ring: ring._fetching is None)  # it was asked again, in vain
            assert at.provider.fetches == hour + 2
            assert (await at.caller(at.provider.bearer(f"late-{hour}"))).kind == "jwt"
        assert await at.refusal(at.provider.bearer(kid="k2")) == (503, None)  # it may be a new key's
        at.clock.at_ms += 3_600 * SECOND_MS
        assert await at.refusal(at.provider.bearer()) == (503, None)
        at.provider.keys_answer = None
        at.clock.at_ms += 10 * SECOND_MS
        assert (await at.caller(at.provider.bearer())).kind == "jwt"
    told = [type(event).__name__ for event in at.sink.events]
    assert told == ["ProviderDown", "ProviderUp"]


BAD: dict[str, Answer] = {
    "down": DOWN,
    "not found": Answer(b"{}", 404),
    "redirect": Answer(b"", 302, {"Location": "/elsewhere"}),
    "nothing": Answer(b""),
    "garbage": Answer(b"<html>"),
    "deep": Answer(b"[" * 100_000),
    "no list": Answer(b'{"keys": {}}'),
    "no keys": Answer(b'{"keys": []}'),
    "odd keys": Answer(b'{"keys": [1, null, {"kty": []}, {"kty": "RSA", "n": 1}, {"kty": "EC", "crv": {}}]}'),
    "too many": Answer(json.dumps({"keys": [{"kty": "oct"}] * 101}).encode()),
    "oversized": Answer(b" " * 300_000),
    "compressed": Answer(b"\x1f\x8b\x08", 200, {"Content-Encoding": "gzip"}),
    "slow": Answer(hangs=True),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_set_that_cannot_be_read_lets_nobody_in_and_does_not_shut_out(door: Doors, name: str) -> None:
    impatient = {"timeout_ms": 50} if name == "slow" else {}
    async with door(**impatient) as at:
        at.provider.keys_answer = BAD[name]
        for _ in range(3):  # one fetch does for all who come within ten seconds
            assert await at.refusal(at.provider.bearer()) == (503, None)
        assert at.outcomes == [("jwks", "failed")]
        at.provider.keys_answer = None
        at.clock.at_ms += 10 * SECOND_MS
        at.resolver = at.build(at.provider.jwt())  # a good answer may take its time
        assert (await at.caller(at.provider.bearer())).kind == "jwt"
        at.resolver = at.build(at.provider.jwt(**impatient))
        at.provider.keys_answer = BAD[name]
        at.clock.at_ms += 300 * SECOND_MS
        assert (await at.caller(at.provider.bearer("bob"))).kind == "jwt"
        await until(lambda: ("jwks", "failed") in at.outcomes[2:])
        assert (await at.caller(at.provider.bearer("carol"))).kind == "jwt"
    assert at.provider.strayed == 0
    assert all("Bearer" not in str(event) for event in at.sink.events)


async def test_a_token_that_names_no_key_is_tried_with_those_that_fit(door: Doors) -> None:
    async with door() as at:
        at.provider.listed = [
            public_jwk(private_key("RSA", "other"), kid="r"),
            public_jwk(private_key("P-256", "other")),
            public_jwk(private_key("P-256", "k1")),
        ]
        assert (await at.caller(at.provider.bearer(kid=None))).kind == "jwt"
        at.provider.listed = [public_jwk(private_key("P-256", "k2"))]
        at.clock.at_ms += 10 * SECOND_MS
        rotated = jwt.encode(at.provider.claims(), private_key("P-256", "k2"), "ES256")
        assert (await at.caller({"Authorization": f"Bearer {rotated}"})).kind == "jwt"


def jwk(kind: str = "P-256", **fields: Any) -> dict[str, Any]:
    return public_jwk(private_key(kind, "k1"), **fields)


LEFT_OUT: dict[str, dict[str, Any]] = {
    "shared secret": {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"},
    "for encryption": jwk(use="enc"),
    "for signing only": jwk(key_ops=["sign"]),
    "private": jwk(d="AAAA"),
    "weak": jwk("weak"),
    "for an algorithm of another kind": jwk(alg="RS256"),
    "for an HMAC": jwk("RSA", alg="HS256"),
    "for none": jwk("RSA", alg="none"),
    "algorithm is no text": jwk("RSA", alg=["RS256"]),
    "name is no text": jwk(kid=1),
    "unknown curve": jwk(crv="secp256k1"),
    "point not on the curve": {**jwk(), "x": jwk("RSA")["n"][:43]},
    "half of it": {"kty": "EC", "crv": "P-256"},
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_key_that_cannot_be_trusted_is_left_out(name: str) -> None:
    good = jwk(kid="good")
    assert [key.kid for key in read_keys(json.dumps({"keys": [LEFT_OUT[name], good]}).encode())] == ["good"]
    with pytest.raises(KeySetError, match="no public key"):
        read_keys(json.dumps({"keys": [LEFT_OUT[name]]}).encode())


@pytest.mark.parametrize(
    ("kind", "fields", "algorithms"),
    [
        ("RSA", {}, {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
        ("RSA", {"alg": "PS256"}, {"PS256"}),
        ("P-256", {"use": "sig", "key_ops": ["verify"]}, {"ES256"}),
        ("P-384", {}, {"ES384"}),
        ("Ed25519", {}, {"EdDSA"}),
    ],
)
def test_a_key_is_used_as_its_kind_allows(kind: str, fields: dict[str, Any], algorithms: set[str]) -> None:
    (key,) = read_keys(json.dumps({"keys": [jwk(kind, **fields)]}).encode())
    assert key.algorithms == algorithms
