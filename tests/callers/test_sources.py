"""Who a request is from (OWN-ID)."""

import ipaddress

import pytest

from shim.audit.sink import NullSink
from shim.callers.caller import NOBODY
from shim.callers.keys import Keys
from shim.callers.provider import Providers
from shim.callers.refused import Refused
from shim.callers.resolve import build_resolver
from shim.callers.sources import ApiKeySource, HeaderSource, TokenSource
from shim.clock import SystemClock
from shim.config import Config, digest_of
from shim.wire.errors import ShimError
from tests.callers.conftest import bearer, headers, jwt

pytestmark = pytest.mark.rule("OWN-ID")

NETWORKS = [ipaddress.ip_network(one) for one in ("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")]


async def refused(identify, *given) -> str:
    with pytest.raises(Refused) as caught:
        await identify(*given)
    return f"{caught.value.reason}: {caught.value.message}"


def source_of_keys(keys, header, named):
    return ApiKeySource(keys, header, {name: digest_of(key) for name, key in named.items()})


@pytest.fixture
def api_keys(keys):
    return source_of_keys(keys, "X-Api-Key", {"anna": "k-anna", "bob": "k-bob"})


def test_no_key_is_held_that_could_be_compared_letter_by_letter(api_keys):
    """They are found by a keyed hash of what is given: the time that takes says nothing of any key."""
    held = repr(vars(api_keys))
    for key in ("k-anna", "k-bob"):
        assert key not in held
        assert digest_of(key) not in held


async def test_an_api_key_names_its_caller(api_keys):
    anna = await api_keys.identify(headers(("x-api-key", "k-anna")), None)
    bob = await api_keys.identify(headers(("X-Api-Key", " k-bob ")), None)
    assert (anna.kind, anna.label, anna.credential) == ("api_key", "anna", None)
    assert bob.label == "bob"
    assert anna.key != bob.key


async def test_a_new_key_of_the_same_name_is_the_same_caller(keys, api_keys):
    renewed = source_of_keys(keys, "X-Api-Key", {"anna": "k-new"})
    assert (await renewed.identify(headers(("X-Api-Key", "k-new")), None)).key == (
        await api_keys.identify(headers(("X-Api-Key", "k-anna")), None)
    ).key


@pytest.mark.parametrize("given", ["", "k-ann", "k-anna1", "K-ANNA", "k-\udcff"])
async def test_an_unknown_api_key_is_a_401_that_does_not_repeat_it(api_keys, given):
    message = await refused(api_keys.identify, headers(("X-Api-Key", given)), None)
    assert message == "api_key: X-Api-Key: not a known key"


async def test_two_different_api_keys_are_a_401(api_keys):
    await refused(api_keys.identify, headers(("X-Api-Key", "k-anna"), ("X-Api-Key", "k-bob")), None)


async def test_without_the_header_the_source_does_not_apply(api_keys):
    assert await api_keys.identify(bearer("k-anna"), None) is None


async def test_an_api_key_may_be_a_bearer_token(keys):
    source = source_of_keys(keys, "Authorization", {"anna": "k-anna"})
    assert (await source.identify(headers(("authorization", "bearer  k-anna")), None)).label == "anna"
    assert await source.identify(bearer("other"), None) is None
    assert await source.identify(headers(("Authorization", "Basic k-anna")), None) is None


async def test_an_own_api_key_is_no_credential_for_the_upstream(api_keys):
    both = headers(("X-Api-Key", "k-anna"), ("Authorization", "Bearer up"))
    assert (await api_keys.identify(both, None)).credential.authorization == "Bearer up"


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.9.8.7", "::ffff:10.9.8.7", "fd00::1"])
async def test_a_header_is_believed_from_a_trusted_proxy(keys, peer):
    caller = await HeaderSource(keys, "X-Forwarded-User", NETWORKS).identify(
        headers(("x-forwarded-user", "anna")), peer
    )
    assert (caller.kind, caller.label) == ("header", None)
    assert "anna" not in caller.key


NAMES = [
    "anna",
    "Anna",
    "ANNA",
    "an\u0430",
    "ann\u00e4",
    "anna\u0308",
    "\uff41nna",
    "anna\u200b",
    "anna\udcff",
]
"""What looks alike, or would be made alike by a database or a file system."""


async def test_names_are_told_apart_by_their_bytes(keys):
    """Whoever sets the header says who is who; the shim makes no two names one."""
    source = HeaderSource(keys, "X-U", NETWORKS)
    callers = [await source.identify(headers(("X-U", name)), "127.0.0.1") for name in NAMES]
    assert len({one.key for one in callers}) == len(NAMES)


@pytest.mark.parametrize("peer", ["192.168.0.1", "::ffff:192.168.0.1", "fe80::1", None])
async def test_a_header_from_elsewhere_is_a_401(keys, peer):
    await refused(HeaderSource(keys, "X-U", NETWORKS).identify, headers(("X-U", "anna")), peer)


@pytest.mark.parametrize("given", [[("X-U", "")], [("X-U", " ")], [("X-U", "a"), ("X-U", "b")]])
async def test_a_header_without_one_name_is_a_401(keys, given):
    await refused(HeaderSource(keys, "X-U", NETWORKS).identify, headers(*given), "127.0.0.1")


async def test_a_jwt_caller_is_issuer_and_subject_and_survives_a_refresh(keys):
    source = TokenSource(keys)
    one = await source.identify(bearer(jwt({"iss": "i", "sub": "s", "exp": 100})), None)
    refreshed = await source.identify(bearer(jwt({"iss": "i", "sub": "s", "exp": 200.5}, "bmV3")), None)
    assert one.key == refreshed.key
    assert (one.kind, one.credential.expires_ms, refreshed.credential.expires_ms) == (
        "token",
        100_000,
        200_500,
    )
    assert one.credential.fingerprint != refreshed.credential.fingerprint


async def test_callers_of_tokens_differ_by_what_identifies_them(keys):
    source = TokenSource(keys)
    given = [
        *("opaque", "opaque2", jwt({"iss": "i"}), jwt({"iss": "i", "sub": 1}), jwt({"iss": "is", "sub": ""})),
        *(jwt({"iss": "i", "sub": "s"}), jwt({"iss": "i", "sub": "t"}), jwt({"iss": "", "sub": "is"})),
        *('["jwt", "i", "s"]', "token:x"),
    ]
    assert len({(await source.identify(bearer(token), None)).key for token in given}) == len(given)


@pytest.mark.parametrize(
    "claims",
    [
        *("", "[1]", "nonsense", '"x"', "[" * 100_000, "9" * 5000, '{"iss": "\\ud800", "sub": "\\ud800"}'),
        *('{"exp": 1e400}', '{"exp": NaN}', '{"exp": "1"}', '{"exp": -1e308, "sub": "s"}'),
    ],
)
async def test_odd_claims_are_no_error(keys, claims):
    assert (await TokenSource(keys).identify(bearer(jwt(claims)), None)).credential.expires_ms is None


@pytest.mark.parametrize(
    "value", ["Bearer a.\udcff.c", "Bearer a.é.c", "Bearer", "Bearer ", "Basic a.b.c", ""]
)
async def test_odd_credentials_are_no_error(keys, value):
    assert (await TokenSource(keys).identify(headers(("Authorization", value)), None)).kind == "token"


async def test_two_different_credentials_are_a_401(keys):
    two = headers(("Authorization", "Bearer a"), ("Authorization", "Bearer b"))
    await refused(TokenSource(keys).identify, two, None)


async def test_a_credential_never_shows_itself(keys):
    caller = await TokenSource(keys).identify(bearer("S3CRET"), None)
    assert "S3CRET" not in repr(caller)
    assert "S3CRET" not in caller.key + caller.credential.fingerprint


def resolver(keys, **identity):
    """A resolver that asks no provider."""
    providers = Providers(SystemClock(), NullSink(), lambda _source, _outcome: None)
    return build_resolver(Config.model_validate({"identity": identity}).identity, keys, providers)


@pytest.mark.parametrize(
    ("given", "session_id", "kind"),
    [
        (bearer("t"), None, "token"),
        (bearer("t"), "s1", "token"),
        (headers(), "s1", "session"),
        (headers(), None, "none"),
        (headers(("X-Api-Key", "k"), ("X-Forwarded-User", "anna")), None, "none"),
    ],
)
async def test_nothing_configured_takes_what_the_request_offers(keys, given, session_id, kind):
    assert (await resolver(keys).resolve(given, "127.0.0.1", session_id=session_id)).kind == kind


@pytest.mark.rule("OWN-NONE")
async def test_nobody_is_no_session_and_sessions_differ(keys):
    nothing = resolver(keys)
    callers = [nothing.session_caller(one) for one in ("s1", "s2")]
    assert len({NOBODY.key, *(one.key for one in callers)}) == 3
    assert await nothing.resolve(headers(), None, session_id="s1") == callers[0]


ALL = {"sources": ["api_key", "header", "token"], "api_key": {"keys": {"anna": "k-anna"}}}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (
            headers(("X-Api-Key", "k-anna"), ("X-Forwarded-User", "u"), ("Authorization", "Bearer t")),
            "api_key",
        ),
        (headers(("X-Forwarded-User", "u"), ("Authorization", "Bearer t")), "header"),
        (bearer("t"), "token"),
    ],
)
async def test_the_first_source_that_applies_decides(keys, given, kind):
    assert (await resolver(keys, **ALL).resolve(given, "127.0.0.1", session_id=None)).kind == kind


@pytest.mark.parametrize("session_id", [None, "s1"])
async def test_where_sources_are_configured_there_is_no_default_caller(keys, session_id):
    with pytest.raises(ShimError) as caught:
        await resolver(keys, **ALL).resolve(headers(), "127.0.0.1", session_id=session_id)
    assert caught.value.http_status == 401


async def test_a_bad_key_is_no_reason_to_ask_the_next_source(keys):
    given = headers(("X-Api-Key", "wrong"), ("Authorization", "Bearer t"))
    with pytest.raises(ShimError):
        await resolver(keys, **ALL).resolve(given, None, session_id=None)


async def test_kinds_never_share_a_caller(keys):
    name = "x"
    callers = [
        await source_of_keys(keys, "K", {name: "k"}).identify(headers(("K", "k")), None),
        await HeaderSource(keys, "H", NETWORKS).identify(headers(("H", name)), "127.0.0.1"),
        await TokenSource(keys).identify(bearer(name), None),
        resolver(keys).session_caller(name),
    ]
    assert len({one.key for one in callers}) == 4


async def test_callers_stay_the_same_over_restarts(tmp_path):
    first, second = [
        await TokenSource(Keys.load(tmp_path / "k")).identify(bearer(jwt({"iss": "i", "sub": "s"})), None)
        for _ in "ab"
    ]
    assert first.key == second.key
