"""docs/identity.md names the reasons that there are, and its examples are configs."""

import re
import tomllib
from pathlib import Path

import pytest

from shim.config import Config

ROOT = Path(__file__).parent.parent
DOC = (ROOT / "docs" / "identity.md").read_text("utf-8")


def test_every_reason_of_a_401_is_told() -> None:
    code = "".join(path.read_text("utf-8") for path in (ROOT / "shim" / "callers").glob("*.py"))
    given = set(re.findall(r"Refused\(\s*\"(\w+)\"", code))
    table = DOC.split("\n## Why a request was refused\n", 1)[1]
    told = {
        name for row in re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE) for name in row.split("`")[1::2]
    }
    assert told == given


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", DOC, re.DOTALL))
def test_its_examples_are_configs(example: str) -> None:
    told = tomllib.loads(example)
    assert told
    Config.model_validate({"listen": {"public_url": "https://mcp.example.org/mcp"}, **told})
