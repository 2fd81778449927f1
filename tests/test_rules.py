"""Every rule of docs/translation.md is held by a test, and every rule a test claims exists."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
RULES = TESTS.parent / "docs" / "translation.md"


def _rules() -> set[str]:
    text = RULES.read_text("utf-8")
    begun = re.findall(r"^- \*\*([A-Z]+(?:-[A-Z0-9]+)*)\*\*", text, re.MULTILINE)
    return {*begun, *re.findall(r"\*\*(CS-[A-Z]+)\*\*", text)}


def _claimed() -> dict[str, list[str]]:
    claimed: dict[str, list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.rule":
                for argument in node.args:
                    claimed.setdefault(ast.literal_eval(argument), []).append(path.name)
    return claimed


def test_every_rule_is_held_by_a_test() -> None:
    assert sorted(_rules() - set(_claimed())) == []


def test_every_claimed_rule_exists() -> None:
    assert {rule: where for rule, where in _claimed().items() if rule not in _rules()} == {}
