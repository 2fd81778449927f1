"""Signed tokens: which count, for whom, and what an attacker makes of one (OWN-ID)."""

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from jwt import PyJWS
from multidict import CIMultiDict, CIMultiDictProxy

from shim.callers.keys import Keys
from shim.config import Config, ConfigError
from shim.wire.errors import ShimError
from tests.callers.conftest import Hands, bearer, headers
from tests.callers.door import Door, Doors
from tests.provider import AUDIENCE, KINDS, identity_provider, private_key, public_jwk, segment

pytestmark = pytest.mark.rule("OWN-ID")


async def test_issuer_and_subject_are_the_caller_and_a_refresh_keeps_it(door: Doors) -> None:
    async with door() as at:
        first = await at.caller(at.provider.bearer("alice"))
        at.clock.at_ms += 600_000
        renewed = await at.caller(at.provider.bearer("alice"))
        other = await at.caller(at.provider.bearer("bob"))
        assert first.credential
        assert renewed.credential
        assert first.credential.fingerprint != renewed.credential.fingerprint
    assert first.kind == "jwt"
    assert first.key == renewed.key != other.key
    assert first.credential.expires_ms == 1_800_003_600_000


async def test_the_same_person_is_the_same_caller_as_before_the_token_was_checked(door: Doors) -> None:
    async with door() as at:
        checked = await at.caller(at.provider.bearer("alice"))
        claimed = await at.build({}).resolve(
            headers(*at.provider.bearer("alice").items()), None, session_id=None
        )
    assert (claimed.kind, checked.kind) == ("token", "jwt")
    assert claimed.key == checked.key


async def test_the_claims_that_the_config_names_are_the_caller(door: Doors) -> None:
    async with door(caller=["tid", "oid"], label="client_id") as at:
        given = [("t1", "o1"), ("t2", "o1"), ("t1", "o2"), ("o1", "t1")]
        callers = [
            await at.caller(at.provider.bearer("same", tid=tid, oid=oid, client_id="nightly"))
            for tid, oid in given
        ]
        assert len({one.key for one in callers}) == len(given)
        assert {one.label for one in callers} == {"nightly"}
        assert await at.refusal(at.provider.bearer("same", tid="t1")) == (401, "token_claims")


@pytest.mark.parametrize("algorithm", KINDS)
async def test_each_asymmetric_algorithm_is_served_where_it_is_named(door: Doors, algorithm: str) -> None:
    async with door(algorithms=[algorithm]) as at:
        at.provider.rotate("k1", algorithm=algorithm)
        assert (await at.caller(at.provider.bearer(algorithm=algorithm))).kind == "jwt"


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512", "none", "RSA1_5"])
def test_an_algorithm_without_a_public_key_cannot_be_named(algorithm: str) -> None:
    with pytest.raises(ValueError, match="algorithms"):
        Config.model_validate({"identity": {"jwt": {"algorithms": [algorithm]}}})


def resigned(token: str, **header: Any) -> str:
    """A good token under another header, its signature as it was."""
    _, claims, signature = token.split(".")
    return f"{segment({'alg': 'ES256', 'kid': 'k1', **header})}.{claims}.{signature}"


def hmac_with_public_key(at: Door, encoding: str) -> str:
    """The classic: the public key, which anybody has, taken as the secret of an HMAC."""
    public = private_key("P-256", "k1").public_key()
    secret = (
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        if encoding == "pem"
        else json.dumps(public_jwk(private_key("P-256", "k1"), kid="k1")).encode()
    )
    body = f"{segment({'alg': 'HS256', 'kid': 'k1'})}.{segment(at.provider.claims())}"
    return f"{body}.{segment(hmac.digest(secret, body.encode(), hashlib.sha256))}"


def unsigned(at: Door, alg: str, signature: str = "") -> str:
    return f"{segment({'alg': alg})}.{segment(at.provider.claims())}.{signature}"


def altered(at: Door) -> str:
    head, _, signature = at.provider.token("alice").split(".")
    return f"{head}.{segment(at.provider.claims('bob'))}.{signature}"


def own_key_inside(at: Door) -> str:
    """Signed by a key that the token itself brings along."""
    own = public_jwk(private_key("P-256", "attacker"))
    return str(at.provider.token(kid="attacker", header={"jwk": own, "kid": "k1"}))


FORGED: dict[str, tuple[Callable[[Door], str], str]] = {
    "none": (lambda at: unsigned(at, "none"), "token_algorithm"),
    "None": (lambda at: unsigned(at, "None"), "token_algorithm"),
    "empty algorithm": (lambda at: unsigned(at, ""), "token_algorithm"),
    "no signature": (lambda at: unsigned(at, "ES256"), "token_signature"),
    "HMAC by the public PEM": (lambda at: hmac_with_public_key(at, "pem"), "token_algorithm"),
    "HMAC by the public JWK": (lambda at: hmac_with_public_key(at, "jwk"), "token_algorithm"),
    "another algorithm": (lambda at: at.provider.token(algorithm="ES384"), "token_algorithm"),
    "header says RS256": (lambda at: resigned(at.provider.token(), alg="RS256"), "token_key"),
    "altered claims": (altered, "token_signature"),
    "own key inside": (own_key_inside, "token_signature"),
    "key by URL": (
        lambda at: at.provider.token(kid="x", header={"jku": "http://127.0.0.1:1/", "kid": "k1"}),
        "token_signature",
    ),
    "unknown key": (lambda at: at.provider.token(kid="k9"), "token_key"),
    "path in kid": (lambda at: resigned(at.provider.token(), kid="../../../../dev/null"), "token_key"),
    "SQL in kid": (lambda at: resigned(at.provider.token(), kid="k1' OR '1'='1"), "token_key"),
    "URL in kid": (lambda at: resigned(at.provider.token(), kid="http://127.0.0.1:1/k"), "token_key"),
    "list in kid": (lambda at: resigned(at.provider.token(), kid=["k1"]), "token_form"),
    "crit": (lambda at: at.provider.token(header={"crit": ["exp"]}), "token_form"),
    "unencoded": (lambda at: resigned(at.provider.token(), b64=False), "token_form"),
    "number as algorithm": (lambda at: resigned(at.provider.token(), alg=1), "token_algorithm"),
    "another kind": (lambda at: at.provider.token(header={"typ": "logout+jwt"}), "token_type"),
    "kind is no text": (lambda at: resigned(at.provider.token(), typ=1), "token_type"),
    "garbage": (lambda _: "a.b.c", "token_form"),
    "no text": (lambda _: "é.é.é", "token_form"),
    "empty": (lambda _: "..", "token_form"),
    "deep header": (lambda _: f"{segment(b'[' * 10_000)}.e30.x", "token_form"),
    "list as header": (lambda _: f"{segment([])}.e30.x", "token_form"),
    "list as claims": (lambda _: list_of_claims(), "token_form"),
    "huge": (lambda _: f"{'a' * 20_000}.e30.x", "token_size"),
    "expired": (lambda at: at.provider.token(exp=at.provider.now_s() - 31), "token_expired"),
    "no end": (lambda at: at.provider.token(exp=None), "token_claims"),
    "end is text": (lambda at: with_claims(at, exp="9999999999"), "token_claims"),
    "end is true": (lambda at: with_claims(at, exp=True), "token_claims"),
    "end is infinite": (lambda at: with_claims(at, exp=float("inf")), "token_form"),
    "end is nowhere": (lambda at: with_claims(at, exp=10**400), "token_claims"),
    "end is no number": (lambda at: with_claims(at, exp=float("nan")), "token_form"),
    "future": (lambda at: at.provider.token(nbf=at.provider.now_s() + 31), "token_early"),
    "beginning is text": (lambda at: with_claims(at, nbf="soon"), "token_claims"),
    "another issuer": (lambda at: at.provider.token(iss="https://evil.example"), "token_issuer"),
    "issuer with a slash": (lambda at: at.provider.token(iss="https://issuer.example/"), "token_issuer"),
    "issuer is a list": (lambda at: with_claims(at, iss=["https://issuer.example"]), "token_issuer"),
    "no issuer": (lambda at: at.provider.token(iss=None), "token_issuer"),
    "another audience": (lambda at: at.provider.token(aud="https://other.example"), "token_audience"),
    "part of the audience": (lambda at: at.provider.token(aud=AUDIENCE + "/x"), "token_audience"),
    "no audience": (lambda at: at.provider.token(aud=None), "token_audience"),
    "audience is a table": (lambda at: with_claims(at, aud={AUDIENCE: 1}), "token_audience"),
    "no subject": (lambda at: with_claims(at, sub=None), "token_claims"),
    "empty subject": (lambda at: with_claims(at, sub=""), "token_claims"),
    "subject is a list": (lambda at: with_claims(at, sub=["alice"]), "token_claims"),
}  # fmt: skip


def raw_token(claims: Any) -> str:
    """Claims that no library would write, well signed."""
    return PyJWS().encode(json.dumps(claims).encode(), private_key("P-256", "k1"), "ES256", {"kid": "k1"})


def with_claims(at: Door, **claims: Any) -> str:
    return raw_token({**at.provider.claims(), **claims})


def list_of_claims() -> str:
    return raw_token(["iss", "sub"])


@pytest.mark.parametrize("name", FORGED)
async def test_what_does_not_count_is_a_401_that_says_why_to_the_operator(door: Doors, name: str) -> None:
    forge, reason = FORGED[name]
    async with door() as at:
        assert (await at.caller(at.provider.bearer())).kind == "jwt"
        token = forge(at)
        assert await at.refusal(bearer(token)) == (401, reason)
        assert await at.refusal(bearer(token)) == (401, reason)  # a bad one is never remembered as good
        assert at.provider.fetches == 1


async def test_the_leeway_is_small_and_both_ways(door: Doors) -> None:
    async with door() as at:
        now_s = at.provider.now_s()
        assert (await at.caller(at.provider.bearer(exp=now_s - 29))).kind == "jwt"
        assert (await at.caller(at.provider.bearer(nbf=now_s + 29))).kind == "jwt"


async def test_a_token_that_was_good_is_not_good_for_ever(door: Doors) -> None:
    async with door() as at:
        given = at.provider.bearer()
        await at.caller(given)
        at.clock.at_ms += 3_629_999
        await at.caller(given)
        at.clock.at_ms += 1
        assert await at.refusal(given) == (401, "token_expired")


@pytest.mark.parametrize("typ", ["JWT", "jwt", "at+jwt", "application/at+jwt", "AT+JWT"])
async def test_kinds_of_access_tokens_are_served(door: Doors, typ: str) -> None:
    async with door() as at:
        assert (await at.caller(at.provider.bearer(header={"typ": typ}))).kind == "jwt"


async def test_only_the_kind_that_is_named_is_served(door: Doors) -> None:
    async with door(types=["at+jwt"]) as at:
        assert (await at.caller(at.provider.bearer(header={"typ": "at+jwt"}))).kind == "jwt"
        assert await at.refusal(at.provider.bearer()) == (401, "token_type")


@pytest.mark.parametrize("aud", [[AUDIENCE, "https://other.example"], AUDIENCE])
async def test_one_audience_of_several_will_do(door: Doors, aud: Any) -> None:
    async with door(audience=["https://old.example", AUDIENCE]) as at:
        assert (await at.caller(at.provider.bearer(aud=aud))).kind == "jwt"


@pytest.mark.parametrize(
    "pairs",
    [
        lambda token: [("Authorization", f"Bearer {token}"), ("Authorization", "Bearer other")],
        lambda token: [("authorization", "Basic YTpi"), ("Authorization", f"Bearer {token}")],
    ],
)
async def test_a_credential_says_one_thing(door: Doors, pairs: Callable[[str], Any]) -> None:
    async with door() as at:
        given = CIMultiDictProxy(CIMultiDict(pairs(at.provider.token())))
        assert await at.refusal(given) == (401, "twice")


async def test_a_joined_credential_is_no_token(door: Doors) -> None:
    async with door() as at:
        token = at.provider.token()
        assert (await at.refusal(bearer(f"{token}, Bearer {token}")))[0] == 401
        assert (await at.refusal({"Authorization": token}))[0] == 401
        assert (await at.refusal({"Authorization": f"Basic {token}"}))[0] == 401


async def test_a_set_by_file_needs_no_provider(keys: Keys, clock: Hands, tmp_path: Path) -> None:
    clock.at_ms = 1_800_000_000_000
    file = tmp_path / "jwks.json"
    async with identity_provider(clock) as provider:
        file.write_text(json.dumps({"keys": provider.listed}))
        at = Door(provider, keys, clock, provider.jwt(jwks_url=None, jwks_file=file))
        assert (await at.caller(provider.bearer())).kind == "jwt"
        assert await at.refusal(provider.bearer(kid="k2")) == (401, "token_key")
        assert provider.fetches == 0
    for content, fault in (
        ("{}", 'no list "keys"'),
        ("x", "no JSON object"),
        ('{"keys": []}', "no public key"),
    ):
        file.write_text(content)
        with pytest.raises(ConfigError, match=rf"^identity\.jwt\.jwks_file: .*{fault}"):
            at.build(provider.jwt(jwks_url=None, jwks_file=file))


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (("exp", -31), "the token expired 31 s ago"),
        (("exp", -7_200), "the token expired 2 h ago"),
        (("nbf", 300), "the token is not valid for another 5 min"),
    ],
)
async def test_a_401_tells_by_how_much_the_clocks_differ(
    door: Doors, claim: tuple[str, int], message: str
) -> None:
    name, off_s = claim
    async with door() as at:
        token = at.provider.token(**{name: at.provider.now_s() + off_s})
        with pytest.raises(ShimError, match=f"^{message}$"):
            await at.resolver.resolve(headers(("Authorization", f"Bearer {token}")), None, session_id=None)
