"""The names that a metric's `method` label may have; every other one is `other`."""

from collections.abc import Iterable

from shim.hub.dialect import Dialect

_PROTOCOL = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        "GET",
        "DELETE",
    }
)


def method_names(dialects: Iterable[Dialect]) -> list[str]:
    """Give the protocol's methods, HTTP's own two, and the task methods of all dialects."""
    return sorted(_PROTOCOL.union(*(dialect.methods.names() for dialect in dialects)))
