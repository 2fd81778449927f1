"""When a dialect's table is total: nothing the hub may hold or say is without a place in it."""

from dataclasses import dataclass

from shim.hub.facts import CALL, Facts
from shim.hub.status import TERMINAL, Status


@dataclass(frozen=True, slots=True)
class Gap:
    """What is missing and where."""

    path: tuple[str, ...]
    fault: str


def gaps(facts: Facts) -> list[Gap]:
    """List what keeps a well-formed table from being total."""
    return [*_state_gaps(facts), *_name_gaps(facts), *_way_gaps(facts)]


def _state_gaps(facts: Facts) -> list[Gap]:
    found: list[Gap] = []
    for status in Status:
        state = facts.outwards.get(status)
        back = facts.inwards.get(state) if state is not None else None
        if state is None:
            found.append(Gap(("outwards",), f"the hub state {status.value!r} has no way out"))
        elif back is None:
            found.append(Gap(("outwards", status.value), f"{state!r} has no way back in [inwards]"))
        elif (status in TERMINAL) != (back in TERMINAL):
            fault = f"{state!r} is read back as {back.value!r}: one of the two is an end, the other is not"
            found.append(Gap(("outwards", status.value), fault))
    first = facts.create.first
    if first and facts.inwards.get(first, Status.FAILED) in TERMINAL:
        found.append(Gap(("create", "first"), f"{first!r} is missing in [inwards], or an end there"))
    found.extend(
        Gap(("lenient", state), "stands in [inwards], too")
        for state in facts.lenient
        if state in facts.inwards
    )
    return found


def _name_gaps(facts: Facts) -> list[Gap]:
    found: list[Gap] = []
    methods: dict[str, str] = {}
    members: dict[str, str] = {}
    for section, table, seen in (
        ("methods", facts.methods, methods),
        ("fields", facts.fields, members),
        ("members", facts.members, members),
    ):
        for key, name in table:
            if not name or (key == "answer" and name == facts.methods.update):
                continue
            if name in seen:
                found.append(Gap((section, key), f"{name!r} is {seen[name]} already"))
            seen[name] = f"{section}.{key}"
    return found


def _way_gaps(facts: Facts) -> list[Gap]:
    found: list[Gap] = []
    if not facts.methods.result and not (facts.fields.result and facts.fields.error):
        found.append(Gap(("methods", "result"), "false, but fields.result or fields.error is false, too"))
    if (facts.create.style == "server") != (facts.methods.create is False):
        fault = f"does not fit create.style = {facts.create.style!r}"
        found.append(Gap(("methods", "create"), fault))
    if facts.create.style == "augment" and facts.methods.create != CALL:
        found.append(Gap(("methods", "create"), f"create.style = 'augment' is a member of {CALL!r}"))
    if facts.carries.ttl_always and not facts.fields.ttl:
        found.append(Gap(("carries", "ttl_always"), "true, but fields.ttl is false"))
    if facts.fields.input_requests and not facts.carries.input_stream and not facts.methods.answer:
        found.append(Gap(("methods", "answer"), "false, but questions stand in the task and on no stream"))
    if facts.methods.answer and not facts.fields.input_responses:
        found.append(Gap(("fields", "input_responses"), "false, but methods.answer is a method"))
    found.extend(
        Gap(("members", key), "false, but methods.list is a method")
        for key, name in facts.members
        if facts.methods.list and not name
    )
    return found
