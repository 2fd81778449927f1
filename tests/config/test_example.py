"""config.example.toml and the model hold each other."""

import re
import tomllib
from pathlib import Path

import pytest

from shim.config import Config
from shim.config.example import example
from shim.config.keys import leaves

PATH = Path(__file__).parents[2] / "config.example.toml"
TEXT = PATH.read_text("utf-8")
COMMENTED = [line for line in TEXT.splitlines() if re.match(r"#\w", line)]


def described(text: str) -> set[tuple[str, ...]]:
    """Give the keys of a config's text, those commented out too."""
    found, table = set(), ()
    for line in text.splitlines():
        if header := re.fullmatch(r"\[\[?([\w.]+)\]\]?", line):
            table = tuple(header[1].split("."))
        elif key := re.match(r"#?(\w+) = ", line):
            found.add((*table, key[1]))
    return found


def test_the_example_is_what_the_model_says():
    assert example() == TEXT, "run: python -m shim.config.example > config.example.toml"


def test_every_key_is_in_the_example_and_no_other():
    assert described(TEXT) == {path for path, _ in leaves()}


def test_the_example_is_the_defaults():
    assert Config.model_validate(tomllib.loads(TEXT)) == Config.model_validate(
        {"upstream": [{"url": "http://127.0.0.1:3000/mcp"}]}
    )


@pytest.mark.parametrize("line", COMMENTED)
def test_every_commented_key_is_a_valid_example(line):
    text = TEXT.replace(f"\n{line}\n", f"\n{line[1:]}\n", 1)
    Config.model_validate(tomllib.loads(text))


@pytest.mark.parametrize(
    ("path", "field"), list(leaves()), ids=lambda one: ".".join(one) if isinstance(one, tuple) else ""
)
def test_every_key_is_described_and_durations_say_their_unit(path, field):
    assert field.description
    if path[-1].endswith("_ms"):
        assert "milliseconds" in field.description.lower()
    if path[-1].endswith("_bytes"):
        assert "bytes" in field.description.lower()
