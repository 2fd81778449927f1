"""The shim's own secrets: one key file, one derived key for each purpose (OWN-STORE)."""

import base64
import contextlib
import functools
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import structlog

from shim.callers.encoded import unpadded
from shim.config import digest_of

log = structlog.get_logger("shim.callers")

_KEY_BYTES = 32
_TAG_BYTES = 16
_OTHERS = 0o077
_REMEMBERED = 4_096
_REMEMBERED_CHARS = 4_096
"""The hashes made last are remembered with what they were made of, in memory only: 16 MiB at most."""


class KeyFileError(ValueError):
    """The key file cannot be used; the message says why."""


class Keys:
    """Hashes callers and signs what a client carries for the shim; old keys still verify."""

    def __init__(self, roots: Sequence[bytes]) -> None:
        self._roots = tuple(roots)
        self._derived: dict[tuple[int, str], bytes] = {}
        self._remembered = functools.lru_cache(_REMEMBERED)(self._hash)

    @classmethod
    def load(cls, path: Path, named_by: str = "identity.key_file") -> "Keys":
        """Read the key file, or make one with mode 0600. Raises KeyFileError, which says who names it."""
        try:
            if not path.exists():
                _make(path)
            if path.stat().st_mode & _OTHERS:
                log.warning("others can read the key file: chmod 600 it", path=str(path))
        except OSError as exc:
            raise KeyFileError(f"{named_by}: {path}: {exc.strerror}") from exc
        return cls.read(path, named_by)

    @classmethod
    def read(cls, path: Path, named_by: str = "identity.key_file") -> "Keys":
        """Read a key file that is there. Raises KeyFileError, which says who names it."""
        return cls(_read(path, named_by))

    def derived(self, purpose: str) -> tuple[bytes, ...]:
        """Give the keys for a purpose, the one of the newest key first."""
        return tuple(self._key(number, purpose) for number in range(len(self._roots)))

    def hash(self, purpose: str, value: str, *, digested: bool = False) -> str:
        """Give a keyed hash, the same for the same value as long as the oldest key is in the file.

        `digested`: that of the value's SHA-256, which is all that the config may hold of it.
        """
        if len(value) > _REMEMBERED_CHARS:
            return self._hash(purpose, value, digested)
        return self._remembered(purpose, value, digested)

    def sign(self, purpose: str, bound_to: str, payload: str) -> str:
        """Give a text that carries a payload for one caller."""
        data = payload.encode()
        tag = self._mac(0, purpose, bound_to.encode() + b"\0" + data)[:_TAG_BYTES]
        return _text(tag + data)

    def verify(self, purpose: str, bound_to: str, text: str) -> str | None:
        """Give the payload of a signed text; None where it is foreign, altered or none at all."""
        raw = _signed(text)
        tag, data = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        for number in range(len(self._roots)):
            expected = self._mac(number, purpose, bound_to.encode() + b"\0" + data)[:_TAG_BYTES]
            if hmac.compare_digest(tag, expected):
                return data.decode()
        return None

    def _hash(self, purpose: str, value: str, digested: bool) -> str:  # noqa: FBT001 - a part of its cache's key
        if digested:
            value = digest_of(value)
        return self._mac(len(self._roots) - 1, purpose, _bytes(value)).hex()[:32]

    def _mac(self, root: int, purpose: str, data: bytes) -> bytes:
        return hmac.digest(self._key(root, purpose), data, hashlib.sha256)

    def _key(self, root: int, purpose: str) -> bytes:
        key = self._derived.get((root, purpose))
        if key is None:
            key = self._derived[root, purpose] = hmac.digest(
                self._roots[root], purpose.encode(), hashlib.sha256
            )
        return key


def _make(path: Path) -> None:
    """Make the file, whole or not at all; of two processes at once one wins and both use its keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            json.dump({"keys": [secrets.token_bytes(_KEY_BYTES).hex()]}, file)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _read(path: Path, named_by: str) -> list[bytes]:
    """Read the keys, newest first; a rotation puts a new one in front and leaves the old ones behind it."""
    try:
        keys = [bytes.fromhex(key) for key in json.loads(path.read_text("ascii"))["keys"]]
    except OSError as exc:
        raise KeyFileError(f"{named_by}: {path}: {exc.strerror}") from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise KeyFileError(
            f'{named_by}: {path}: expected {{"keys": [hex, ...]}}; a file that is not there is made'
        ) from exc
    if not keys or any(len(key) < _KEY_BYTES for key in keys):
        raise KeyFileError(f"{named_by}: {path}: each key needs at least {_KEY_BYTES} bytes")
    return keys


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")  # a header may hold bytes that are no UTF-8


def _signed(text: str) -> bytes:
    """Give tag and payload; nothing for a text that is none of ours."""
    raw = unpadded(text)
    return b"" if raw is None or _text(raw) != text else raw  # base64 has several spellings; we write one


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
