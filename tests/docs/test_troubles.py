"""docs/how-to/troubles.md has every warning of the operator's log, and none that there is not."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "how-to" / "troubles.md").read_text("utf-8")


def warnings() -> set[str]:
    """Give the text of every warning in the package."""
    calls = (
        node
        for path in sorted((ROOT / "shim").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
    )
    said = [call.args[0] for call in calls if ast.unparse(call.func).endswith((".warning", ".warn"))]
    return {one.value for one in said if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def test_every_warning_of_the_log_is_told() -> None:
    table = TEXT.split("\n## What the log says\n", 1)[1].split("\n## ", 1)[0]
    told = set(re.findall(r"^\| (.+?) \|", table, re.MULTILINE)) - {"event", "---"}
    assert told == warnings()


def test_what_it_says_at_the_start_is_said() -> None:
    package = "".join(path.read_text("utf-8") for path in (ROOT / "shim").rglob("*.py"))
    for words in ("cannot listen on", "holds this ledger", "is of a newer taskshim", "cannot be opened"):
        assert words in TEXT
        assert words in package
