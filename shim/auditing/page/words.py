"""How the page writes values. Each figure stands beside its exact value, in `<data>` or `<time>`."""

import re
from datetime import date, datetime
from typing import Any

from markupsafe import Markup

from shim.audit.printable import printable

_LONGEST = 200
_LONGEST_SENTENCE = 2_000
_LISTED = 6
_WORD = 28
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_WHOLE = 100
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT[\d:]+Z)")


def value(found: Any, name: str = "") -> Markup:
    """Write a value of a column for people; what others stated is escaped and keeps to itself."""
    match found:
        case None | []:
            return Markup('<span class="none">\u2013</span>')
        case bool():
            return Markup("yes") if found else Markup("no")
        case int() | float():
            return _data(found, duration(found) if name.endswith("_ms") else number(found))
        case datetime():
            return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M}</time>').format(exact(found), found)
        case date():
            return Markup('<time datetime="{0}">{0}</time>').format(found)
        case list():
            items = [stated(one) for one in found[:_LISTED]]
            if len(found) > _LISTED:
                items.append(Markup('<span class="none">and {} more</span>').format(len(found) - _LISTED))
            return Markup('<ul class="list">{}</ul>').format(
                Markup("").join(Markup("<li>{}</li>").format(item) for item in items)
            )
    return stated(found)


def stated(text: Any) -> Markup:
    """Write what others stated."""
    shown = printable(str(text))
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}…"
    # only what is long may be broken anywhere: columns get as narrow as their words allow
    long = any(len(word) > _WORD for word in shown.split(" "))
    return Markup("<bdi{}>{}</bdi>").format(Markup(' class="long"') if long else "", shown)


def exact(at: datetime) -> str:
    """Write a time for machines, as the JSON report does."""
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"


def number(count: float) -> str:
    """Write a number with its thousands set apart, parts of it to two places."""
    if isinstance(count, int):
        return f"{count:,}".replace(",", "\u202f")
    return f"{count:,.2f}".replace(",", "\u202f").replace("-", "\u2212")


def duration(length_ms: float) -> str:
    """Write a length of time with about three figures."""
    for unit_ms, name in _UNITS:
        if length_ms >= unit_ms:
            count = length_ms / unit_ms
            return f"{count:.0f}\u202f{name}" if count >= _WHOLE else f"{count:.1f}\u202f{name}"
    return f"{length_ms:.0f}\u202fms" if length_ms >= _WHOLE else f"{length_ms:.1f}\u202fms"


def day(found: date) -> Markup:
    """Write a day in running text."""
    machine = exact(found) if isinstance(found, datetime) else found
    return Markup('<time datetime="{}">{}\u00a0{:%B\u00a0%Y}</time>').format(machine, found.day, found)


def instant(found: datetime) -> Markup:
    """Write a time in running text."""
    return Markup('<time datetime="{}">{}\u00a0{:%B\u00a0%Y, %H:%M}</time>').format(
        exact(found), found.day, found
    )


def named(path: str, found: Any, form: str = "") -> Markup:
    """Write a figure in a sentence, with its path in the report; `day` and `signed` are other forms."""
    match found:
        case datetime():
            shown = day(found) if form == "day" else instant(found)
        case date():
            shown = day(found)
        case float() if form == "signed":
            shown = signed(found)
        case _:
            shown = value(found)
    return Markup('<span data-figure="{}">{}</span>').format(path, shown)


def signed(found: float) -> Markup:
    """Write a difference, with its sign."""
    return _data(found, f"{'+' if found > 0 else ''}{number(found)}")


def sentence(text: str) -> Markup:
    """Write a sentence of the report, its times in one piece."""
    return Markup("").join(
        Markup('<span class="whole-word">{}</span>').format(part) if _TIME.fullmatch(part) else part
        for part in _TIME.split(printable(text, _LONGEST_SENTENCE))
    )


def _data(found: float, shown: str) -> Markup:
    return Markup('<data value="{}">{}</data>').format(found, shown)
