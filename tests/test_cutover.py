"""Which upstream a new call goes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.config.routing import Rule, parse_rule
from shim.cutover import Asker, choose

OLD = Rule("old")
ANN = Asker("hash-ann", "token", "ann", "fastmcp", "modern")
BOB = Asker("hash-bob", "api_key", None, "mcp", "legacy", tool="deploy")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("new", Rule("new")),
        ("new 25%", Rule("new", 25.0)),
        ("new 0.5% tool=deploy-*", Rule("new", 0.5, tool="deploy-*")),
        ("new fallback=old", Rule("new", fallback="old")),
        ("old caller=ann client=mcp* era=legacy", Rule("old", caller="ann", client="mcp*", era="legacy")),
    ],
)
def test_rules_are_written_as_they_are_read(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule
    assert str(rule) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "new 101%",
        "new tool",
        "new tool=",
        "new tool=a tool=b",
        "new era=old",
        "new 5",
        "new x=y",
        "new fallback=new",
    ],
)
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match=r"rule|%|era|no N%|fallback"):
        parse_rule(text)


@pytest.mark.parametrize(
    ("rules", "asker", "upstream"),
    [
        ([], ANN, "old"),
        (["new"], ANN, "new"),
        (["new era=legacy"], ANN, "old"),
        (["new era=legacy"], BOB, "new"),
        (["new caller=ann"], ANN, "new"),
        (["new caller=hash-bob"], BOB, "new"),
        (["new caller=hash-bob"], ANN, "old"),
        (["new client=fast*"], ANN, "new"),
        (["new tool=dep*"], BOB, "new"),
        (["new tool=dep*"], ANN, "old"),
        (["third tool=deploy", "new"], BOB, "third"),
        (["new 0%"], ANN, "old"),
        (["new 100%"], ANN, "new"),
    ],
)
def test_the_first_rule_that_fits(rules: list[str], asker: Asker, upstream: str) -> None:
    assert choose([parse_rule(rule) for rule in rules], OLD, asker).upstream == upstream


def test_a_higher_percentage_only_adds_callers() -> None:
    askers = [Asker(f"caller-{number}", "token", None, "c", "modern") for number in range(2_000)]
    before: set[str] = set()
    for percent in (0, 1, 10, 25, 50, 99, 100):
        rule = parse_rule(f"new {percent}%")
        moved = {one.caller for one in askers if choose([rule], OLD, one).upstream == "new"}
        assert before <= moved
        assert abs(len(moved) / len(askers) - percent / 100) < 0.04
        before = moved
    assert len(before) == len(askers)


@given(
    st.text(max_size=40),
    st.sampled_from(["token", "api_key", "none", "session"]),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
)
def test_raising_a_percentage_never_moves_a_caller_back(caller: str, kind: str, one: int, other: int) -> None:
    asker = Asker(caller, kind, None, caller, "modern")
    lower, higher = (
        choose([parse_rule(f"new {part / 100:g}%")], OLD, asker).upstream for part in sorted((one, other))
    )
    assert (lower, higher) != ("new", "old")


def test_callers_without_identity_move_as_one_for_each_client() -> None:
    rule = parse_rule("new 50%")
    for kind in ("none", "session"):
        for client in ("a", "b", "c", "d", "e"):
            many = {
                choose([rule], OLD, Asker(f"s{n}", kind, None, client, "legacy")).upstream for n in range(50)
            }
            assert len(many) == 1


@pytest.mark.parametrize("name", ["", "\ud800", "\x00", "e\u0301" * 10_000])
def test_whatever_a_client_calls_itself_it_has_a_place(name: str) -> None:
    asker = Asker("none", "none", None, name, "modern")
    assert choose([parse_rule("new 100%")], OLD, asker).upstream == "new"
    assert choose([parse_rule("new 0%")], OLD, asker).upstream == "old"
