"""A provider's key set: no secret, no weak and no private key is used, and none for what it is not for."""

import json

from shim.callers.jwk import KeySetError, read_keys

_ED = '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}'
_P256 = (
    '{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",'
    '"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}'
)
SEEDS = (
    f'{{"keys":[{_ED}]}}'.encode(), f'{{"keys":[{_P256},{_ED}]}}'.encode(), b'{"keys":[{"kty":"oct","k":"AAAA"}]}',
    b'{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}', b"[]", b'{"keys":{}}',
    f'{{"keys":[{_P256[:-1]},"use":"enc"}}]}}'.encode(), f'{{"keys":[{_ED[:-1]},"kid":"k","alg":"EdDSA","use":"sig"}}]}}'.encode(),
    f'{{"keys":[{_ED[:-1]},"d":"AA"}}]}}'.encode(),
)  # fmt: skip
WORDS = (
    b'"kty":"oct"', b'"kty":"RSA"', b'"crv":"P-256"', b'"d":"AA"', b'"use":"enc"', b'"key_ops":["verify"]', b'"alg":"none"',
    b'"alg":"HS256"', b'"alg":"EdDSA"', b'"kid":1', b'"x":', b"null", b"[", b"]", b"{", b"}", b",", b'"', b"AQAB", b"-1", b"\xff",
)  # fmt: skip
_FOR = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("EdDSA",)}


def check(data: bytes) -> None:
    """Read a set and hold each key that is used against what was listed."""
    try:
        keys = read_keys(data)
    except KeySetError as exc:
        assert len(str(exc)) < 100
        return
    assert keys
    listed = [jwk for jwk in json.loads(data)["keys"] if isinstance(jwk, dict)]
    for key in keys:
        material = json.loads(key.material)
        matching = [jwk for jwk in listed if {**jwk, **material} == jwk and jwk.get("kid") == key.kid]
        fit = [jwk for jwk in matching if "d" not in jwk and jwk.get("use", "sig") == "sig"]
        assert fit, "a key is used that is private, for encryption or not there"
        assert key.algorithms
        assert all(algorithm.startswith(_FOR[material["kty"]]) for algorithm in key.algorithms)
        assert any(jwk.get("alg") in {None, *key.algorithms} for jwk in fit)
        for algorithm in ("none", "HS256", *key.algorithms):
            assert key.verifies("e30.e30.AAAA", algorithm) is None, "a token that nobody signed is good"
