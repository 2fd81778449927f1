"""Which columns of a table the page shows, under which headings."""

from dataclasses import dataclass

Columns = tuple[tuple[str, str], ...]

_COUNTS: Columns = (("requests", "Requests"), ("legacy", "Legacy"), ("errors", "Errors"))
_NOTED: Columns = (("count", "Count"), ("callers", "Callers"), ("first", "First"), ("last", "Last"))


@dataclass(frozen=True, slots=True)
class Shown:
    """A table's caption and columns; the first column names the row."""

    caption: str
    columns: Columns


SHOWN = {
    "days": Shown(
        "Requests and callers a day",
        (
            ("day", "Day"), ("legacy", "Legacy requests"), ("modern", "Modern requests"),
            ("legacy_callers", "Legacy callers"), ("covered", "Minutes covered"), ("minutes", "Minutes"),
        ),
    ),
    "line": Shown(
        "The line and its bounds, callers a day",
        (("day", "Day"), ("low", "Lower bound"), ("middle", "Line"), ("high", "Upper bound")),
    ),
    "active": Shown(
        "Callers who break",
        (
            ("caller", "Caller"), ("clients", "Clients"), ("requests", "Legacy requests"),
            ("features", "Features used"), ("tools", "Tools"), ("last", "Last use"),
        ),
    ),
    "after": Shown(
        "Called after it, and would have failed",
        (
            ("caller", "Caller"), ("clients", "Clients"), ("requests", "Legacy requests"),
            ("features", "Features used"), ("last", "Last use"),
        ),
    ),
    "ages": Shown(
        "Last use before the end of the period",
        (("within", "Within the last"), ("callers", "Callers"), ("requests", "Legacy requests")),
    ),
    "connected": Shown(
        "Open by the old API at the end of the period",
        (
            ("caller", "Caller"), ("client", "Client"), ("what", "What"), ("count", "Count"),
            ("last", "Last seen"),
        ),
    ),
    "callers": Shown(
        "All callers, of both APIs",
        (
            ("caller", "Caller"), ("kind", "Known by"), ("clients", "Clients"), *_COUNTS,
            ("denied", "Denied"), ("first", "First"), ("last", "Last"), ("last_legacy", "Last legacy"),
        ),
    ),
    "clients": Shown(
        "Client versions",
        (
            ("client", "Client"), ("version", "Version"), ("era", "API"), ("requests", "Requests"),
            ("legacy", "Legacy"), ("callers", "Callers"), ("features", "Features of the old API"),
            ("last", "Last"),
        ),
    ),
    "methods": Shown(
        "Methods",
        (
            ("method", "Method"), ("era", "API"), *_COUNTS, ("denied", "Denied"), ("callers", "Callers"),
            ("last", "Last"),
        ),
    ),
    "tools": Shown(
        "Tools",
        (
            ("tool", "Tool"), ("upstream", "Upstream"), *_COUNTS, ("with_task_param", "With task param"),
            ("callers", "Callers"), ("last_legacy", "Last legacy"),
        ),
    ),
    "features": Shown(
        "Features of the old API and what takes their place",
        (
            ("feature", "Feature"), ("requests", "Requests"), ("callers", "Callers"), ("last", "Last"),
            ("instead", "In the new API"),
        ),
    ),
    "refused": Shown(
        "Turned away before anything told who calls",
        (
            ("reason", "Reason"), ("http_status", "HTTP status"), ("era", "API"), ("methods", "Methods"),
            ("requests", "Requests"), ("first", "First"), ("last", "Last"),
        ),
    ),
    "losses": Shown(
        "What could not cross between the APIs",
        (("rule", "Rule"), ("field", "Field"), ("corner", "Corner"), ("upstream", "Upstream"), *_NOTED),
    ),
    "lenient": Shown(
        "Where a tolerant reading was needed",
        (
            ("rule", "Rule"), ("detail", "Detail"), ("corner", "Corner"), ("upstream", "Upstream"), *_NOTED,
            ("clients", "Clients"),
        ),
    ),
    "shadow": Shown(
        "Answers to the same call compared, by tool and place",
        (
            ("tool", "Tool"), ("upstream", "Answered by"), ("other", "Copied to"), ("found", "Found"),
            ("path", "Place"), ("calls", "Calls"), ("compared", "Of calls compared"), ("places", "Places"),
            ("last", "Last"),
        ),
    ),
    "errors": Shown(
        "Requests that failed or were refused, and what else went wrong",
        (
            ("what", "What"), ("method", "Method"), ("why", "Why"), ("era", "API"), ("upstream", "Upstream"),
            *_NOTED,
        ),
    ),
    "gaps": Shown(
        "Minutes without a sign of life",
        (("since", "From"), ("until", "To"), ("minutes", "Minutes"), ("stopped", "Stopped in order")),
    ),
    "holes": Shown(
        "Missing events",
        (
            ("instance", "Instance"), ("from_seq", "From number"), ("to_seq", "To number"),
            ("missing", "Missing"), ("after", "After"), ("before", "Before"),
        ),
    ),
    "faults": Shown(
        "Lines that do not stand as the shim wrote them",
        (
            ("file", "File"), ("line", "Line"), ("lines", "Lines"), ("instance", "Instance"),
            ("seq", "Number"), ("ts", "Time"), ("fault", "What is wrong"),
        ),
    ),
    "lost": Shown(
        "Events lost by the shim's own account",
        (("instance", "Instance"), ("told", "Told"), ("count", "Events")),
    ),
    "runs": Shown(
        "Runs that are not whole",
        (("instance", "Instance"), ("at", "Time"), ("what", "What is wrong")),
    ),
    "unreadable": Shown(
        "Lines that cannot be read",
        (("file", "File"), ("tail", "Last line of its file"), ("after", "After"), ("before", "Before")),
    ),
}  # fmt: skip

NUMBERS = frozenset(
    {
        "requests", "legacy", "modern", "legacy_callers", "covered", "minutes", "low", "middle", "high",
        "count", "callers", "errors", "error_percent", "denied", "with_task_param", "missing", "from_seq",
        "to_seq", "tasks", "completed", "failed", "cancelled", "lost", "open", "p50_ms", "p95_ms",
        "line", "lines", "seq", "calls", "compared", "places",
    }
)  # fmt: skip
"""Columns of figures, which stand to the right."""
