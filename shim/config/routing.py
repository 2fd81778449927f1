"""Cutover rules as the config writes them.

`UPSTREAM [N%] [tool=GLOB] [caller=NAME] [client=GLOB] [era=legacy|modern] [fallback=UPSTREAM]`
"""

import re
from dataclasses import dataclass

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)%")
_TESTS = ("tool", "caller", "client", "era")
_WORDS = (*_TESTS, "fallback")
_ALL = 100.0


@dataclass(frozen=True, slots=True)
class Rule:
    """Sends new calls of whom all its tests fit to an upstream, or a percentage of them."""

    upstream: str
    percent: float = _ALL
    tool: str | None = None
    """A glob of tool names."""
    caller: str | None = None
    """A caller's label, or its hash as in the audit log."""
    client: str | None = None
    """A glob of client names."""
    era: str | None = None
    fallback: str | None = None
    """The upstream that takes the calls while the first one cannot be reached."""

    @property
    def for_all(self) -> bool:
        """True where every new call fits, so that no later rule is looked at."""
        return self.percent == _ALL and all(getattr(self, name) is None for name in _TESTS)

    def __str__(self) -> str:
        share = [] if self.percent == _ALL else [f"{self.percent:g}%"]
        tests = [f"{name}={value}" for name in _WORDS if (value := getattr(self, name)) is not None]
        return " ".join([self.upstream, *share, *tests])


def parse_rule(text: str) -> Rule:
    """Read a rule. Raises ValueError that says what is wrong with which word."""
    upstream, *words = text.split() or [""]
    percent, tests = _ALL, dict[str, str]()
    for word in words:
        name, equals, value = word.partition("=")
        if (share := _PERCENT.fullmatch(word)) is not None:
            percent = float(share[1])
        elif equals and name in _WORDS and value and name not in tests:
            tests[name] = value
        else:
            raise ValueError(f"{text!r}: {word!r} is no N% and none of {', '.join(_WORDS)} with a value")
    if not upstream:
        raise ValueError("a rule begins with the name of an upstream")
    if percent > _ALL:
        raise ValueError(f"{text!r}: more than 100%")
    if tests.get("era", "legacy") not in {"legacy", "modern"}:
        raise ValueError(f"{text!r}: era is legacy or modern")
    if tests.get("fallback") == upstream:
        raise ValueError(f"{text!r}: the fallback is the upstream itself")
    return Rule(upstream, percent, **tests)
