"""What no log may hold: planted in what the suite sends, and looked for at its end in all that it wrote.

The clients and the scripted upstream plant MARK in arguments, results, questions, answers, error messages,
headers and cookies, and note each credential that is sent; of the real peers' answers some words are known.
tests/leaks.py looks for all of it when the last test has ended.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

MARK = "pLanTed-5d1c"

HEADERS = {"X-Planted": MARK, "Cookie": f"planted={MARK}"}
"""Sent with every request of the clients."""
META = {"tests/planted": MARK}
PEERS_SAY = (
    "Hello, Ada",
    "Multiple content types test",
    "This is a simple prompt for testing",
    "This is the content of the static text",
    "User response: action",
    "computed a in ",
    "computed x in ",
)
"""What the real peers' tools answer and nobody else says: as good as a mark."""

_CREDENTIALS = frozenset({"authorization", "x-api-key"})
_TELLING_CHARS = 8
"""A bare token that is shorter may be a word of a log by chance; with its scheme it is looked for too."""
_NO_LOGS = ("*.db*", "*.toml", "*.key", "*.py", "*-server.log")
"""Ledgers keep results, configs secrets, and peers write what they like."""

_sent: set[str] = set()


def arguments(given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Give a call's arguments, the mark among them."""
    return {**(given or {}), "planted": MARK}


def sending(headers: Mapping[str, str]) -> None:
    """Note the credentials of a request."""
    for name, value in headers.items():
        if name.lower() in _CREDENTIALS:
            _sent.update(one for one in (value, value.rpartition(" ")[2]) if len(one) >= _TELLING_CHARS)


def secrets() -> list[bytes]:
    """Give all that is looked for."""
    return [one.encode("utf-8", "surrogateescape") for one in (MARK, *PEERS_SAY, *sorted(_sent))]


def logs(folder: Path) -> Iterator[Path]:
    """Give the files below a folder that are logs."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and not any(map(path.match, _NO_LOGS)):
            yield path


def leaks(texts: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    """Say in which texts something planted stands; texts are given with their names."""
    wanted = secrets()
    for name, text in texts:
        for secret in wanted:
            if (at := text.find(secret)) >= 0:
                yield f"{name}: {secret!r} in {text[max(0, at - 150) : at + 150]!r}"


def in_ledgers(folder: Path) -> list[str]:
    """Say where in ledgers' files below a folder something planted stands: file, log and index."""
    files = (path for path in folder.rglob("*.db*") if path.is_file())
    return list(leaks((str(path), path.read_bytes()) for path in files))
