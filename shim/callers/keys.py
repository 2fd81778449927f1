"""The shim's own secrets: one key file, one derived key for each purpose (OWN-STORE)."""

import base64
import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path

_KEY_BYTES = 32
_TAG_BYTES = 16


class KeyFileError(ValueError):
    """The key file cannot be used; the message says why."""


class Keys:
    """Hashes callers and signs what a client carries for the shim; old keys still verify."""

    def __init__(self, roots: list[bytes]) -> None:
        self._roots = roots

    @classmethod
    def load(cls, path: Path) -> "Keys":
        """Read the key file, or make one with mode 0600. Raises KeyFileError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return cls(_read(path))
        except OSError as exc:
            raise KeyFileError(f"identity.key_file: {path}: {exc.strerror}") from exc
        root = secrets.token_bytes(_KEY_BYTES)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            json.dump({"keys": [root.hex()]}, file)
            file.flush()
            os.fsync(file.fileno())
        return cls([root])

    def hash(self, purpose: str, value: str) -> str:
        """Give a keyed hash, the same for the same value as long as the oldest key is in the file."""
        return _mac(self._roots[-1], purpose, value.encode()).hex()[:32]

    def sign(self, purpose: str, bound_to: str, payload: str) -> str:
        """Give a text that carries a payload for one caller."""
        data = payload.encode()
        tag = _mac(self._roots[0], purpose, bound_to.encode() + b"\0" + data)[:_TAG_BYTES]
        return base64.urlsafe_b64encode(tag + data).decode().rstrip("=")

    def verify(self, purpose: str, bound_to: str, text: str) -> str | None:
        """Give the payload of a signed text; None where it is foreign, altered or none at all."""
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
        tag, data = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        for root in self._roots:
            expected = _mac(root, purpose, bound_to.encode() + b"\0" + data)[:_TAG_BYTES]
            if hmac.compare_digest(tag, expected):
                return data.decode()
        return None


def _read(path: Path) -> list[bytes]:
    """Read the keys, newest first; a rotation puts a new one in front and leaves the old ones behind it."""
    try:
        keys = [bytes.fromhex(key) for key in json.loads(path.read_text("ascii"))["keys"]]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise KeyFileError(f'identity.key_file: {path}: expected {{"keys": [hex, ...]}}') from exc
    if not keys or any(len(key) < _KEY_BYTES for key in keys):
        raise KeyFileError(f"identity.key_file: {path}: each key needs at least {_KEY_BYTES} bytes")
    return keys


def _mac(root: bytes, purpose: str, data: bytes) -> bytes:
    key = hmac.digest(root, purpose.encode(), hashlib.sha256)
    return hmac.digest(key, data, hashlib.sha256)
