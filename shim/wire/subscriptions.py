"""What `subscriptions/listen` asks for and how it is answered (ML-LISTEN, MM-1, LM-STREAM). Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shim.hub import rawjson
from shim.hub.rawjson import Members, RawJsonError
from shim.wire.envelope import META_SUBSCRIPTION
from shim.wire.errors import invalid_params

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
RESOURCE_UPDATED = "notifications/resources/updated"
EVERY_TASK = "notifications/tasks"
"""In a list of names: every task of the caller (section 1 of the rules)."""
FILTER, TASK_IDS, RESOURCES = "notifications", "taskIds", "resourceSubscriptions"


@dataclass(frozen=True, slots=True)
class ListChange:
    """A list that may change: who offers it, and how its change is said."""

    capability: str
    method: str


LISTS: Mapping[str, ListChange] = {
    "toolsListChanged": ListChange("tools", "notifications/tools/list_changed"),
    "promptsListChanged": ListChange("prompts", "notifications/prompts/list_changed"),
    "resourcesListChanged": ListChange("resources", "notifications/resources/list_changed"),
}
"""By the filter's names."""
LIST_OF: Mapping[str, str] = {change.method: name for name, change in LISTS.items()}
ANNOUNCED = frozenset((RESOURCE_UPDATED, *LIST_OF))
"""What a server announces to those who asked for it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter, read."""

    lists: frozenset[str] = frozenset()
    uris: Sequence[str] = ()
    task_ids: Sequence[str] | None = None
    """None where it says nothing of tasks."""
    every_task: bool = False
    named: bool = False
    """True where it was a list of names, as only the articles have it."""

    @property
    def announces(self) -> bool:
        """True where it asks for what a server announces."""
        return bool(self.lists or self.uris)

    @property
    def tasks(self) -> bool:
        """True where it asks for tasks, be it none of them."""
        return self.every_task or self.task_ids is not None

    def count(self) -> int:
        """Count what is named."""
        return len(self.uris) + len(self.task_ids or ())


def read_filter(params: Members) -> Wanted:
    """Read what a client wants to hear. Raises ClientFault."""
    raw = params.get(FILTER, b"")
    if raw[:1] == b"[":
        names = strings(raw, f"params.{FILTER}")
        lists = frozenset(LIST_OF[name] for name in names if name in LIST_OF)
        return Wanted(lists, every_task=EVERY_TASK in names, named=True)
    if raw[:1] != b"{":
        raise invalid_params(f"params.{FILTER}: required, an object")
    members = strict_filter(raw)
    for name in LISTS:
        if members.get(name, b"true") not in {b"true", b"false"}:
            raise invalid_params(f"params.{FILTER}.{name}: expected true or false")
    ids = members.get(TASK_IDS)
    return Wanted(
        frozenset(name for name in LISTS if members.get(name) == b"true"),
        _once(strings(members.get(RESOURCES, b"[]"), f"params.{FILTER}.{RESOURCES}")),
        None if ids is None else _once(strings(ids, f"params.{FILTER}.{TASK_IDS}")),
    )


def write_filter(lists: Iterable[str], uris: Sequence[str], task_ids: Sequence[str] | None = None) -> bytes:
    """Write a filter; what is empty is left out, but for an empty list of tasks."""
    wanted: dict[str, object] = {name: True for name in LISTS if name in lists}
    if uris:
        wanted[RESOURCES] = list(uris)
    if task_ids is not None:
        wanted[TASK_IDS] = list(task_ids)
    return rawjson.encode(wanted)


def offered(capabilities: bytes) -> tuple[frozenset[str], bool]:
    """Tell which list changes a server offers, and whether it has resources."""
    said = rawjson.decode(capabilities)
    said = said if isinstance(said, dict) else {}
    lists = frozenset(
        name for name, change in LISTS.items() if _flag(said.get(change.capability), "listChanged")
    )
    return lists, isinstance(said.get("resources"), dict)


def tagged(params: Members, listen_id: bytes) -> Members:
    """Give params that name the subscription they belong to."""
    meta = params.get("_meta", b"")
    members = rawjson.object_or_empty(meta)
    return {**params, "_meta": rawjson.join({**members, META_SUBSCRIPTION: listen_id})}


def listen_result(listen_id: bytes) -> bytes:
    """Write the result that ends a subscription."""
    return rawjson.join(tagged({"resultType": b'"complete"'}, listen_id))


def strict_filter(raw: bytes) -> Members:
    """Read a filter strictly: a server that overlooks case must not read more than was judged here."""
    try:
        wanted = rawjson.strict_members(raw)
    except RawJsonError as exc:
        raise invalid_params(f"params.{FILTER}: {exc}") from exc
    for key in wanted:
        if key != TASK_IDS and key.casefold() == TASK_IDS.casefold():
            raise invalid_params(f"params.{FILTER}: the key {key!r} is written in another case")
    return wanted


def strings(raw: bytes, where: str) -> list[str]:
    """Read a list of strings. Raises ClientFault."""
    try:
        found = rawjson.decode(raw)
    except RawJsonError:
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise invalid_params(f"{where}: expected a list of strings")
    return found


def _once(values: Iterable[str]) -> Sequence[str]:
    return tuple(dict.fromkeys(values))


def _flag(said: object, name: str) -> bool:
    return isinstance(said, dict) and said.get(name) is True
