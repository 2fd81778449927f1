"""Signed tokens: one counts only if its signed bytes are the provider's and its claims are in order."""

import base64
import json
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from multidict import CIMultiDict, CIMultiDictProxy

from fuzz.reference import NotJson, TooDeep, plain
from fuzz.source import Source, text_of
from shim.callers.caller import Caller
from shim.callers.credentials import bearer_token, claims_of, expires_ms
from shim.callers.jwk import read_keys
from shim.callers.jwks import FileKeys
from shim.callers.jwt import JwtSource
from shim.callers.keys import Keys
from shim.callers.refused import Refused
from shim.config.identity import JwtIdentity

_NOW_S = 1_800_000_000
_LEEWAY_S = 30
_PRIVATE = Ed25519PrivateKey.from_private_bytes(b"p" * 32)
_FOREIGN = Ed25519PrivateKey.from_private_bytes(b"f" * 32)
_HEAD = b'{"alg":"EdDSA","kid":"k"}'
_CLAIMS = b'{"iss":"i","aud":"a","sub":"s","exp":1800000100}'
SEEDS = (
    b"\0" + bytes([len(_HEAD)]) + _HEAD + _CLAIMS, b"\1" + bytes([len(_HEAD)]) + _HEAD + _CLAIMS,
    b"\0\x1b" + b'{"alg":"EdDSA","typ":"JWT"}' + b'{"iss":"i","aud":["b","a"],"sub":7,"exp":1800000000.5,"nbf":1}',
    b"\0\x0e" + b'{"alg":"none"}' + _CLAIMS, b"\0\x19" + b'{"alg":"HS256","kid":"k"}' + _CLAIMS,
    b"\2" + bytes([len(_HEAD)]) + _HEAD + _CLAIMS, b"\3\x00Bearer a.b.c", b"\4\x03\x01\x02\x03" + _CLAIMS,
    b"\0" + bytes([len(_HEAD)]) + _HEAD + b'{"iss":"i","aud":"a","sub":"s","exp":1799999970}',
    b"\0" + bytes([len(_HEAD)]) + _HEAD + b'{"iss":"i","aud":"a","sub":"s","exp":1800000100,"nbf":1800000031}',
    b"\0" + bytes([len(_HEAD)]) + _HEAD + b'{"iss":"i","aud":"a","sub":"s","exp":NaN}',
    b"\0" + bytes([len(_HEAD)]) + _HEAD + b'{"iss":"i","aud":"a","sub":true,"exp":1800000100}',
    b"\0" + bytes([len(_HEAD)]) + _HEAD + b'{"iss":"i","aud":"a","sub":"s","exp":1800000100,"nbf":1800000030}',
    b"\0\x25" + b'{"alg":"EdDSA","kid":"k","b64": true}' + _CLAIMS,
)  # fmt: skip
WORDS = (
    b'"alg":"none"', b'"alg":"HS256"', b'"alg":"EdDSA"', b'"kid":"k"', b'"kid":null', b'"typ":"at+jwt"', b'"crit":[]',
    b'"b64":false', b'"iss":"i"', b'"aud":["a"]', b'"aud":"a"', b'"sub":"s"', b'"sub":true', b'"exp":1799999970',
    b'"exp":1e400', b'"exp":NaN', b'"nbf":1800000031', b'"nbf":-1', b'"exp":true', b".", b"=", b"Bearer ", b"{", b"}", b",",
    b"1800000000", b"-",
)  # fmt: skip


def _jwks() -> bytes:
    x = _text(_PRIVATE.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
    return json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]}).encode()


def check(data: bytes) -> None:
    """Make a token, sign it or not, and ask who its bearer is."""
    source = Source(data)
    way, head, claims = source.byte() % 5, source.short(), source.rest()
    signed = f"{_text(head)}.{_text(claims)}"
    key = _FOREIGN if way == 1 else _PRIVATE
    token = f"{signed}.{_text(key.sign(signed.encode()))}"
    if way == 2:
        token = _altered(token, claims)
    authorization = text_of(claims) if way == 3 else f"Bearer {token}"
    claims_of(bearer_token(authorization) or "")
    expires_ms(claims_of(bearer_token(authorization) or ""))
    caller = _identified(authorization)
    if caller is None:
        assert not (way == 0 and _in_order(head, claims)), "a good token is refused"
        return
    assert way != 1, "a token that another signed counts"
    parts = (bearer_token(authorization) or "").split(".")
    raw = base64.urlsafe_b64decode(parts[2] + "=" * (-len(parts[2]) % 4))
    assert raw == _PRIVATE.sign(f"{parts[0]}.{parts[1]}".encode()), "a token that nobody signed counts"
    assert _in_order(_bytes(parts[0]), _bytes(parts[1])), "a token counts whose claims do not"


def _in_order(head: bytes, claims: bytes) -> bool:
    """Tell whether header and claims are those of a token that counts."""
    try:
        header, said = plain(head), plain(claims)
    except (NotJson, TooDeep):
        return False
    if not isinstance(header, dict) or not isinstance(said, dict):
        return False
    kind = header.get("typ", "JWT")
    if (
        header.get("alg") != "EdDSA"
        or header.get("kid", "k") not in {"k", None}
        or {"crit", "b64"} & set(header)
    ):
        return False
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in {"jwt", "at+jwt"}:
        return False
    listed = said.get("aud") if isinstance(said.get("aud"), list) else [said.get("aud")]
    if said.get("iss") != "i" or "a" not in cast("list[Any]", listed):
        return False
    subject = said.get("sub")
    if isinstance(subject, bool) or not isinstance(subject, str | int) or subject == "":
        return False
    if "exp" not in said or not all(_is_time(said[name]) for name in ("exp", "nbf") if name in said):
        return False
    return bool(said["exp"] + _LEEWAY_S > _NOW_S and said.get("nbf", 0) - _LEEWAY_S <= _NOW_S)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12


def _identified(authorization: str) -> Caller | None:
    headers = CIMultiDictProxy(CIMultiDict([("Authorization", authorization)]))
    source = JwtSource(_SETTINGS, _KEYS, _RING, cast("Any", _CLOCK), 16_384)
    try:
        return _run(source.identify(headers, None))
    except Refused as refused:
        assert refused.reason.startswith("token_"), refused.reason
        return None


def _run(work: Coroutine[Any, Any, Caller | None]) -> Caller | None:
    try:
        work.send(None)
    except StopIteration as done:
        return cast("Caller | None", done.value)
    raise AssertionError("a key of a file is waited for")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _altered(text: str, how: bytes) -> str:
    characters = list(text)
    for place, change in zip(how[:16:2], how[1:16:2], strict=False):
        at = place % (len(characters) + 1)
        characters[at : at + change % 3] = [chr(change & 127)] * (change % 5 > 0)
    return "".join(characters)


_SETTINGS = JwtIdentity(
    issuer="i",
    audience=("a",),
    algorithms=("EdDSA",),
    leeway_ms=_LEEWAY_S * 1_000,
    jwks_url="https://i.example/k",
)
_KEYS = Keys([b"n" * 32])
_CLOCK = SimpleNamespace(now_ms=lambda: _NOW_S * 1_000)
_RING = FileKeys(read_keys(_jwks()))
