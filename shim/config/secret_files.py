"""What the config names by file: secrets, keys."""

import hashlib
import re
from pathlib import Path

from shim.config.identity import ApiKeyIdentity, IntrospectionIdentity
from shim.config.load import ConfigError
from shim.config.service import UpstreamConfig

_HASHED = "sha256:"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def service_token(upstream: UpstreamConfig) -> str | None:
    """Give the upstream's service token, if it has one. Raises ConfigError."""
    if upstream.service_token is not None:
        return upstream.service_token.get_secret_value()
    if upstream.service_token_file is None:
        return None
    token = read_file(upstream.service_token_file, "upstream.service_token_file").strip()
    if not token or any(char.isspace() for char in token):
        raise ConfigError(
            f"upstream.service_token_file: {upstream.service_token_file} must hold one token and nothing else"
        )
    return token


def client_secret(identity: IntrospectionIdentity) -> str:
    """Give the shim's own secret at the provider. Raises ConfigError."""
    if identity.client_secret is not None:
        return identity.client_secret.get_secret_value()
    key = "identity.introspection.client_secret_file"
    if identity.client_secret_file is None:
        raise ConfigError(f"{key}: missing, and so is client_secret")
    secret = read_file(identity.client_secret_file, key).strip()
    if not secret or len(secret.splitlines()) > 1:
        raise ConfigError(f"{key}: {identity.client_secret_file} must hold one line with the secret")
    return secret


def api_keys(identity: ApiKeyIdentity) -> dict[str, str]:
    """Give the keys' SHA-256 by name, the file's after the config's own. Raises ConfigError.

    No key and no hash is ever in its message.
    """
    digests = {
        name: _digest(key.get_secret_value(), f"identity.api_key.keys.{name}")
        for name, key in identity.keys.items()
    }
    if identity.file is not None:
        for number, line in enumerate(
            read_file(identity.file, "identity.api_key.file").splitlines(), start=1
        ):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, equals, key = (part.strip() for part in line.partition("="))
            if not (name and equals and key):
                raise ConfigError(f"{identity.file}:{number}: expected a line `name = key`")
            if name in digests:
                raise ConfigError(f"{identity.file}:{number}: {name!r} has a key already")
            digests[name] = _digest(key, f"{identity.file}:{number}")
    if len(set(digests.values())) != len(digests):
        raise ConfigError("identity.api_key: two names have the same key")
    return digests


def digest_of(key: str) -> str:
    """Give the SHA-256 of an API key, as the config may hold it in its place."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _digest(key: str, place: str) -> str:
    """Give the SHA-256 of a key, or the one that stands in its place. Raises ConfigError."""
    if not key.startswith(_HASHED):
        return digest_of(key)
    digest = key.removeprefix(_HASHED).lower()
    if _SHA256.fullmatch(digest) is None:
        raise ConfigError(f"{place}: expected 64 hex digits after {_HASHED}")
    return digest


def read_file(path: Path, key: str) -> str:
    """Read a file that a key of the config names. Raises ConfigError."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{key}: {path} is not UTF-8 text") from exc
    except OSError as exc:
        raise ConfigError(f"{key}: {path} cannot be read: {exc.strerror}") from exc
