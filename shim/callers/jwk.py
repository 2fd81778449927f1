"""A provider's public keys, read from a JWK set, and what each may check."""

import functools
import json
from dataclasses import dataclass
from typing import Any

from jwt import PyJWS
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from shim.callers.encoded import object_in

_KEYS = 100
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_OF_CURVE = {
    "EC P-256": frozenset({"ES256"}),
    "EC P-384": frozenset({"ES384"}),
    "EC P-521": frozenset({"ES512"}),
    "OKP Ed25519": frozenset({"EdDSA"}),
    "OKP Ed448": frozenset({"EdDSA"}),
}
_READERS: dict[str, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")
_LONG_ENOUGH = {"enforce_minimum_key_length": True}


@functools.cache
def _checker(algorithm: str) -> PyJWS:
    """Give what knows one algorithm and no other; they are few."""
    return PyJWS(algorithms=[algorithm])


class KeySetError(ValueError):
    """This is no set with a key that can be used; the message says why, in a few words."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key, and the only algorithms that it may be used with."""

    kid: str | None
    material: str
    """What tells it from another of the same name."""
    algorithms: frozenset[str]
    public: Any

    def verifies(self, token: str, algorithm: str) -> bytes | None:
        """Give the payload of a token that was signed with this key; None for every other."""
        if algorithm not in self.algorithms:
            return None
        try:
            found = _checker(algorithm).decode_complete(token, self.public, [algorithm], _LONG_ENOUGH)  # type: ignore[arg-type]
        except (PyJWTError, ValueError, TypeError):
            return None
        payload = found["payload"]
        return payload if isinstance(payload, bytes) else None


def read_keys(body: bytes) -> tuple[Key, ...]:
    """Read the keys of a set that can be used here; others are left out. Raises KeySetError without any."""
    found = object_in(body)
    if found is None:
        raise KeySetError("it is no JSON object")
    listed = found.get("keys")
    if not isinstance(listed, list):
        raise KeySetError('it has no list "keys"')
    if len(listed) > _KEYS:
        raise KeySetError(f"it has more than {_KEYS} keys")
    keys = tuple(key for key in map(_read, listed) if key is not None)
    if not keys:
        raise KeySetError("it has no public key for signatures that can be used")
    return keys


def _read(jwk: Any) -> Key | None:
    """Read one key; None for a shared secret, one for encryption, a weak or a broken one."""
    if not isinstance(jwk, dict) or "d" in jwk or jwk.get("use", "sig") != "sig":
        return None
    operations, kid = jwk.get("key_ops", ["verify"]), jwk.get("kid")
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if not isinstance(kid, str | None):
        return None
    kty, algorithms = jwk.get("kty"), _algorithms(jwk)
    if not isinstance(kty, str) or not algorithms:
        return None
    material = {name: jwk[name] for name in _PUBLIC if name in jwk}
    if not all(isinstance(value, str) for value in material.values()):
        return None
    try:
        public = _READERS[kty].from_jwk(dict(material))
        algorithm = min(algorithms)
        too_short = _checker(algorithm).get_algorithm_by_name(algorithm).check_key_length(public)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    return None if too_short else Key(kid, json.dumps(material, sort_keys=True), algorithms, public)


def _algorithms(jwk: dict[str, Any]) -> frozenset[str]:
    """Tell what a key may be used with: what its kind and curve allow, only its own `alg` if it has one."""
    named = jwk.get("alg")
    allowed = (
        _RSA if jwk.get("kty") == "RSA" else _OF_CURVE.get(f"{jwk.get('kty')} {jwk.get('crv')}", frozenset())
    )
    if named is None:
        return allowed
    return allowed & {named} if isinstance(named, str) else frozenset()
