"""Secrets that the config names by file."""

from pathlib import Path

from shim.config.load import ConfigError
from shim.config.service import ApiKeyIdentity, UpstreamConfig


def service_token(upstream: UpstreamConfig) -> str | None:
    """Give the upstream's service token, if it has one. Raises ConfigError."""
    if upstream.service_token is not None:
        return upstream.service_token.get_secret_value()
    if upstream.service_token_file is None:
        return None
    token = _read(upstream.service_token_file, "upstream.service_token_file").strip()
    if not token or any(char.isspace() for char in token):
        raise ConfigError(
            f"upstream.service_token_file: {upstream.service_token_file} must hold one token and nothing else"
        )
    return token


def api_keys(identity: ApiKeyIdentity) -> dict[str, str]:
    """Give the keys by name, the file's after the config's own. Raises ConfigError; no key is ever in it."""
    keys = {name: key.get_secret_value() for name, key in identity.keys.items()}
    if identity.file is not None:
        for number, line in enumerate(_read(identity.file, "identity.api_key.file").splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, equals, key = (part.strip() for part in line.partition("="))
            if not (name and equals and key):
                raise ConfigError(f"{identity.file}:{number}: expected a line `name = key`")
            if name in keys:
                raise ConfigError(f"{identity.file}:{number}: {name!r} has a key already")
            keys[name] = key
    if len(set(keys.values())) != len(keys):
        raise ConfigError("identity.api_key: two names have the same key")
    return keys


def _read(path: Path, key: str) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{key}: {path} is not UTF-8 text") from exc
    except OSError as exc:
        raise ConfigError(f"{key}: {path} cannot be read: {exc.strerror}") from exc
