"""The report as one HTML file: no script, no network, everything in it. Needs Jinja2 (extra `audit`)."""

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from shim.audit.counted import agreeing, counted
from shim.audit.printable import printable
from shim.auditing.page import charts
from shim.auditing.page.columns import NUMBERS, SHOWN
from shim.auditing.period import Period
from shim.auditing.sources import AuditingError
from shim.auditing.usage import CLIENTS

if TYPE_CHECKING:
    from jinja2 import Environment

ROWS = 200
"""So many rows of a table are shown at most; it says how many there are."""

CORNERS = {
    "LL": "old client, old server", "LM": "old client, new server",
    "ML": "new client, old server", "MM": "new client, new server",
}  # fmt: skip


RULES = {
    "no-legacy-for:14d": "No legacy call for 14 days", "no-open-tasks": "No open task on an old server",
}  # fmt: skip


def render(told: dict[str, Any]) -> str:
    """Write the report. Every figure is the report's own; raises AuditingError without Jinja2."""
    env = _environment()
    style = resources.files(__package__).joinpath("templates", "style.css").read_text("utf-8")
    off = told["off"]["at"].date() if told["off"]["days_ahead"] is not None else None
    return env.get_template("report.html").render(
        told=told,
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        period=Period(**told["period"]),
        bars=charts.bars(told["days"]),
        course=charts.course(told["days"], told["trend"]["callers"], off),
        most_a_day=max(
            (day["requests"] for row in told["last_use"]["callers"] for day in row["days"]), default=1
        ),
        most_used=max((row["requests"] for row in told["used"]), default=1),
    )


def figure(told: dict[str, Any], path: str) -> Any:
    """Give the figure at a path of the report, `usage.legacy`; `off.connected#` is how many there are."""
    found: Any = told
    for name in path.removesuffix("#").split("."):
        found = found[int(name) if isinstance(found, list) else name]
    return len(found) if path.endswith("#") else found


def _environment() -> "Environment":
    try:
        import jinja2  # noqa: PLC0415 - the extra `audit` may not be there

        from shim.auditing.page import words  # noqa: PLC0415
    except ImportError:
        raise AuditingError("Jinja2 is missing: pip install 'taskshim[audit]'") from None

    @jinja2.pass_context
    def fig(context: jinja2.runtime.Context, path: str, form: str = "") -> Any:
        """Write a figure of the report, with its path, so that the two can be held against each other."""
        return words.named(path, figure(context["told"], path), form)

    @jinja2.pass_context
    def goes(context: jinja2.runtime.Context, path: str, one: str, many: str | None = None) -> str:
        """Give the words that go with a figure of the report."""
        return agreeing(figure(context["told"], path), one, many)

    env = jinja2.Environment(
        loader=jinja2.PackageLoader("shim.auditing.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "value": words.value, "number": words.number, "stated": words.stated, "sentence": words.sentence,
        "printable": printable,
    }  # fmt: skip
    env.globals |= {
        "fig": fig, "goes": goes, "counted": counted, "charts": charts, "HEIGHT": charts.HEIGHT,
        "SHOWN": SHOWN, "NUMBERS": NUMBERS, "ROWS": ROWS, "CORNERS": CORNERS, "RULES": RULES,
        "MOST_CLIENTS": CLIENTS,
    }  # fmt: skip
    return env
