"""The order of sources, what happens without a credential, and what a 401 asks for (OWN-ID)."""

import subprocess
import sys
from typing import Any

import pytest
from multidict import CIMultiDictProxy

from shim.audit.sink import NullSink
from shim.callers.keys import Keys
from shim.callers.provider import Providers
from shim.callers.resolve import Resolver, build_resolver
from shim.clock import SystemClock
from shim.config import Config, ConfigError
from shim.wire.errors import ShimError
from tests.callers.conftest import bearer, headers
from tests.callers.door import Doors

pytestmark = pytest.mark.rule("OWN-ID")

API_KEY: dict[str, Any] = {"api_key": {"keys": {"anna": "k-anna"}}}
BEARER_KEY: dict[str, Any] = {"api_key": {"keys": {"anna": "k-anna"}, "header": "Authorization"}}


def resolver(keys: Keys, **identity: Any) -> Resolver:
    """A resolver that asks no provider."""
    providers = Providers(SystemClock(), NullSink(), lambda _source, _outcome: None)
    return build_resolver(Config.model_validate({"identity": identity}).identity, keys, providers)


async def refusal(given: CIMultiDictProxy[str], at: Resolver, peer: str = "127.0.0.1") -> ShimError:
    with pytest.raises(ShimError) as caught:
        await at.resolve(given, peer, session_id="s1")
    return caught.value


def challenges(fault: ShimError) -> list[str]:
    return [value for name, value in fault.headers if name == "WWW-Authenticate"]


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        ({"anonymous": False}, ["Bearer"]),
        ({"sources": ["token"]}, ["Bearer"]),
        ({"sources": ["api_key"], **API_KEY}, ['ApiKey header="X-Api-Key"']),
        ({"sources": ["api_key"], **BEARER_KEY}, ["Bearer"]),
        ({"sources": ["header"]}, ['TrustedProxy header="X-Forwarded-User"']),
        ({"sources": ["api_key", "token"], **API_KEY}, ["Bearer", 'ApiKey header="X-Api-Key"']),
        (
            {"sources": ["token"], "resource_metadata": "https://m.example/.well-known/x"},
            ['Bearer resource_metadata="https://m.example/.well-known/x"'],
        ),
    ],
)
async def test_without_a_credential_a_401_asks_for_one(
    keys: Keys, identity: dict[str, Any], expected: list[str]
) -> None:
    fault = await refusal(headers(), resolver(keys, **identity))
    assert (fault.http_status, fault.reason) == (401, "credential")
    assert challenges(fault) == expected


async def test_a_token_that_does_not_count_is_named_so(door: Doors) -> None:
    async with door(caller=['odd"claim\\']) as at:
        given = headers(*at.provider.bearer().items())
        (challenge,) = challenges(await refusal(given, at.resolver))
    description = "the token lacks the claim oddclaim, or it is no text"
    assert challenge == f'Bearer error="invalid_token", error_description="{description}"'


@pytest.mark.parametrize(
    ("identity", "given", "message"),
    [
        ({"sources": ["token"]}, headers(), "a credential is required: a token as Authorization: Bearer"),
        ({"sources": ["api_key"], **API_KEY}, headers(), "a credential is required: a key in X-Api-Key"),
        (
            {"sources": ["api_key"], **API_KEY},
            bearer("k-anna"),
            "Authorization: this bearer token is not served here; send a key in X-Api-Key",
        ),
        (
            {"sources": ["api_key", "header"], **API_KEY},
            headers(("Authorization", "Basic YTpi")),
            (
                "Authorization: a name and password (Basic) is not served here; send a key in X-Api-Key, "
                "or X-Forwarded-User from the proxy in front"
            ),
        ),
        (
            {"sources": ["api_key"], **BEARER_KEY},
            bearer("guessed"),
            "Authorization: this bearer token is not served here; send a known key as Authorization: Bearer",
        ),
        (
            {"sources": ["api_key"], **API_KEY},
            headers(("Authorization", "k-anna")),
            "Authorization: what it holds is not served here; send a key in X-Api-Key",
        ),
    ],
)
async def test_what_is_of_no_form_is_told_what_is_taken(
    keys: Keys, identity: dict[str, Any], given: CIMultiDictProxy[str], message: str
) -> None:
    fault = await refusal(given, resolver(keys, **identity))
    assert (fault.http_status, fault.message) == (401, message)


@pytest.mark.parametrize(
    ("authorization", "reason", "message"),
    [
        (
            "Bearer opaque",
            "token_form",
            "the token is of no form that is served here; send a signed token (JWT) as Authorization: Bearer",
        ),
        (
            "Basic YTpi",
            "credential_form",
            (
                "Authorization: a name and password (Basic) is not served here; "
                "send a signed token (JWT) as Authorization: Bearer"
            ),
        ),
        (
            "Bearer",
            "credential_form",
            (
                "Authorization: this bearer token is not served here; "
                "send a signed token (JWT) as Authorization: Bearer"
            ),
        ),
    ],
)
async def test_where_signed_tokens_are_taken_others_are_told_so(
    door: Doors, authorization: str, reason: str, message: str
) -> None:
    async with door() as at:
        fault = await refusal(headers(("Authorization", authorization)), at.resolver)
    assert (fault.reason, fault.message) == (reason, message)
    [challenge] = challenges(fault)
    assert ("invalid_token" in challenge) is (reason == "token_form")


@pytest.mark.rule("OWN-NONE")
@pytest.mark.parametrize("sources", [["api_key"], ["header"], ["api_key", "header"]])
async def test_who_has_no_credential_may_be_served_where_the_config_says_so(
    keys: Keys, sources: list[str]
) -> None:
    at = resolver(keys, sources=sources, anonymous=True, **API_KEY)
    assert (await at.resolve(headers(), "1.2.3.4", session_id=None)).kind == "none"
    assert (await at.resolve(headers(), "1.2.3.4", session_id="s")).kind == "session"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (bearer("opaque"), "credential_form"),
        (headers(("Authorization", "Basic YTpi")), "credential_form"),
        (headers(("Authorization", "")), "credential_form"),
        (headers(("X-Api-Key", "wrong")), "api_key"),
        (headers(("X-Forwarded-User", "anna")), "peer"),
    ],
)
async def test_a_bad_credential_is_never_nobody(
    keys: Keys, given: CIMultiDictProxy[str], reason: str
) -> None:
    at = resolver(keys, sources=["api_key", "header"], anonymous=True, **API_KEY)
    assert (await refusal(given, at, peer="10.0.0.1")).reason == reason


@pytest.mark.parametrize(
    "given",
    [
        [("X-Forwarded-User", "anna"), ("Connection", "X-Forwarded-User")],
        [("X-Forwarded-User", "anna"), ("Connection", "keep-alive,x-forwarded-user ")],
        [("Connection", "close"), ("Connection", "X-Forwarded-User")],
        [("Connection", "Authorization"), ("Authorization", "Bearer t")],
        [("Connection", "close, X-Api-Key"), ("X-Api-Key", "k-anna")],
    ],
)
async def test_a_header_that_tells_the_caller_is_not_hop_by_hop(
    keys: Keys, given: list[tuple[str, str]]
) -> None:
    at = resolver(keys, sources=["api_key", "header", "token"], anonymous=True, **API_KEY)
    assert (await refusal(headers(*given), at)).reason == "hop_by_hop"


async def test_other_hop_by_hop_headers_do_no_harm(keys: Keys) -> None:
    at = resolver(keys, sources=["api_key"], **API_KEY)
    given = headers(("Connection", "keep-alive, Upgrade"), ("X-Api-Key", "k-anna"))
    assert (await at.resolve(given, None, session_id=None)).label == "anna"


@pytest.mark.parametrize("peer", ["", None])
async def test_over_a_unix_socket_no_header_is_believed(keys: Keys, peer: str) -> None:
    at = resolver(keys, sources=["header"])
    assert (await refusal(headers(("X-Forwarded-User", "anna")), at, peer)).reason == "peer"


async def test_a_header_may_not_say_two_things_at_once(keys: Keys) -> None:
    at = resolver(keys, sources=["header"])
    two = headers(("X-Forwarded-User", "anna"), ("x-forwarded-user", "bob"))
    assert (await refusal(two, at)).reason == "twice"
    alike = headers(("X-Forwarded-User", "anna"), ("x-forwarded-user", "anna"))
    assert (await at.resolve(alike, "127.0.0.1", session_id=None)).kind == "header"


async def test_each_credential_goes_to_the_source_of_its_form(door: Doors) -> None:
    async with door() as at:
        others = {"sources": ["jwt", "api_key", "introspection"], **BEARER_KEY}
        at.resolver = at.build({**at.provider.jwt(), **at.provider.introspection(), **others})
        assert (await at.caller(at.provider.bearer("alice"))).kind == "jwt"
        assert (await at.caller(bearer("k-anna"))).kind == "api_key"
        assert (await at.caller(at.provider.opaque("alice"))).kind == "introspection"
        at.provider.opaque("alice", "a.b.c")
        assert await at.refusal(bearer("a.b.c")) == (401, "token_form")  # and introspection is not asked
        assert len(at.provider.questions) == 1


async def test_a_hash_in_place_of_a_key_lets_its_key_in_and_not_itself(keys: Keys) -> None:
    digest = "sha256:D6A0F2C1A14E0C1C53C6F5BBE24F01DCB4A0E8FEAB4D9B2E1A76FBB9D3A6F2B1"
    at = resolver(keys, sources=["api_key"], api_key={"keys": {"anna": digest, "bob": HASH_OF_SESAME}})
    assert (await at.resolve(headers(("X-Api-Key", "sesame")), None, session_id=None)).label == "bob"
    assert (await refusal(headers(("X-Api-Key", HASH_OF_SESAME)), at)).reason == "api_key"


HASH_OF_SESAME = "sha256:d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272"


@pytest.mark.parametrize("hashed", ["sha256:", "sha256:abc", "sha256:" + "g" * 64, "sha256:" + "a" * 65])
def test_a_hash_that_is_none_is_one_line(keys: Keys, hashed: str) -> None:
    with pytest.raises(ConfigError, match=r"^identity\.api_key\.keys\.anna: expected 64 hex digits"):
        resolver(keys, sources=["api_key"], api_key={"keys": {"anna": hashed}})


def test_without_its_extra_the_source_jwt_is_one_line(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    monkeypatch.delitem(sys.modules, "shim.callers.jwt", raising=False)
    for name in ("jwk", "jwks"):
        monkeypatch.delitem(sys.modules, f"shim.callers.{name}", raising=False)
    jwt = {"issuer": "i", "audience": ["a"], "jwks_url": "https://h/jwks"}
    with pytest.raises(ConfigError, match=r"pip install 'taskshim\[jwt\]'"):
        resolver(keys, sources=["jwt"], jwt=jwt)


def test_the_shim_starts_without_the_library_that_only_the_source_jwt_needs() -> None:
    asked = "import sys, shim.app, shim.cli.main; print({'jwt', 'cryptography'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert ran.stdout == "set()\n"
