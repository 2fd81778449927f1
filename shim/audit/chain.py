"""The audit log's lines, chained by HMAC-SHA256: a line that was changed, removed, added or moved is found.

The `mac` that ends a line is made of the mac of the line before it and of the line itself. The first line of
a run also has a `chain`: which key signs, and the mac that the file ended with before, so that a whole run
cannot be taken out unseen. For who reads the log they are two fields more.
"""

import hashlib
import re
from pathlib import Path

PURPOSE = "audit chain"
"""What the key of a key file is used for here."""
MAC_CHARS = 32
"""Hex digits of a mac: half of what HMAC-SHA256 gives, as much as RFC 2104 asks for."""

_BLOCK_BYTES = 64
_KEY_ID_CHARS = 8
_LONGEST_LINE_BYTES = 4_194_304
_LAST_MAC = re.compile(rb',"mac":"([0-9a-f]{32})"\}\n')


class Signer:
    """Makes macs with one key, of at most 64 bytes."""

    def __init__(self, key: bytes) -> None:
        # RFC 2104 by hand, the padded key hashed once: half the cost of hmac.digest, paid for every line
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))
        self.key_id = self.mac(b"", b"key id")[:_KEY_ID_CHARS].decode()
        """Tells keys apart without telling anything of them."""

    def mac(self, before: bytes, line: bytes) -> bytes:
        """Give the mac of a line, up to where its mac stands, that follows the line of another mac."""
        inner = self._inner.copy()
        inner.update(before + line)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()[:MAC_CHARS].encode()


class Chain:
    """Signs the lines of one run in the order in which they are written."""

    def __init__(self, signer: Signer, after: bytes = b"") -> None:
        self._signer = signer
        self._last = after
        self._begun = False
        self._signed: list[bytes] = []

    def signed(self, line: bytes) -> bytes:
        """Give a line with its mac; `line` is a JSON object without its closing brace."""
        before = self._signed[-1] if self._signed else self._last
        if not self._begun and not self._signed:
            line += b',"chain":{"key":"%b","after":"%b"}' % (self._signer.key_id.encode(), before)
        mac = self._signer.mac(before, line)
        self._signed.append(mac)
        return b'%b,"mac":"%b"}' % (line, mac)

    def written(self, count: int) -> None:
        """Go on behind the first `count` lines that were signed since the last time: the others are lost."""
        if count:
            self._last = self._signed[count - 1]
            self._begun = True
        self._signed.clear()


def mac_at_end(path: Path) -> bytes:
    """Give the mac of the last whole line of a file, empty where there is none. Raises OSError."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LONGEST_LINE_BYTES))
        found = _LAST_MAC.findall(file.read())
    return found[-1] if found else b""
