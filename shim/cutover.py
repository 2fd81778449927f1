"""Which upstream a new call goes to (the cutover). Pure: what is bound already never comes here."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from shim.config.routing import Rule

_WITHOUT_IDENTITY = ("none", "session")
_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class Asker:
    """Who makes a new call, and which."""

    caller: str
    caller_kind: str
    caller_label: str | None
    client: str
    era: str
    tool: str | None = None

    @property
    def identity(self) -> str:
        """Give what a percentage sticks to: the caller, or the client's name where callers are not known."""
        return f"client {self.client}" if self.caller_kind in _WITHOUT_IDENTITY else f"caller {self.caller}"


def choose(rules: Sequence[Rule], default: Rule, asker: Asker) -> Rule:
    """Give the first rule that fits, else the default one."""
    return next((rule for rule in rules if _fits(rule, asker)), default)


def _fits(rule: Rule, asker: Asker) -> bool:
    return (
        (rule.era is None or rule.era == asker.era)
        and (rule.caller is None or rule.caller in {asker.caller, asker.caller_label})
        and (rule.client is None or fnmatchcase(asker.client, rule.client))
        and (rule.tool is None or (asker.tool is not None and fnmatchcase(asker.tool, rule.tool)))
        and _part(asker.identity) < rule.percent * (_PARTS / 100)
    )


def _part(identity: str) -> int:
    """Give an asker's place on the scale: the same for ever, so that a higher percentage only adds."""
    stated = identity.encode("utf-8", "surrogatepass")  # a client's name is what it says it is
    return int.from_bytes(hashlib.sha256(stated).digest()[:8]) % _PARTS
