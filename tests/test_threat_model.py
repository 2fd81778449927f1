"""docs/threat-model.md names tests that exist, and what no other test shows is shown here."""

import json
import re
from pathlib import Path

import pytest

from shim.app import running
from tests.client import LegacyClient, ModernClient
from tests.scripted import Scripted, text, tool
from tests.shim import config_for

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "threat-model.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))
ATTACKS = (
    "Stealing a task", "Guessing an id", "Fixing a session", "Hijacking a session",
    "Replaying `requestState`", "Smuggling in headers", "Smuggling in the body", "DNS rebinding",
    "SSRF by redirects", "SSRF by metadata", "Log injection", "Smuggling of requests", "Splitting answers",
    "Numbers and texts at the edge", "A page that posts", "Being somebody by a header", "Compression bombs",
    "Reading what was remembered of another",
)  # fmt: skip
EVIL = 'x\n{"event":"denied","reason":"forged"}\r\n\x1b[31mred\u2028 end'


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_named_test_exists(file: str, name: str) -> None:
    source = (ROOT / file).read_text("utf-8")
    assert re.search(rf"def {name}\(" if name else r"def test_", source)


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_attack_has_what_stops_it_and_a_test(attack: str) -> None:
    (line,) = [one for one in PAGE.splitlines() if one.startswith(f"| **{attack}")]
    _, stops, shown = line.strip("| ").split(" | ")
    assert stops
    assert "tests/" in shown


@pytest.mark.rule("ORIGIN")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_a_client_states_makes_no_line_of_its_own(
    upstream: Scripted, tmp_path: Path, capfd: pytest.CaptureFixture[str], era: str
) -> None:
    upstream.on("tools/list", {"tools": [tool("plain", "forbidden")]})
    upstream.on("tools/call", text("fine"))
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})
    async with running(config) as app:
        kind = ModernClient if era == "modern" else LegacyClient
        async with kind(app.url, name=EVIL) as client:
            if isinstance(client, LegacyClient):
                await client.initialize()
            await client.call(EVIL)
            for forged in ("a b", '"},{"event":"denied', "x" * 65, "\u2028", "-x"):
                await client.tasks("get", EVIL, headers={"X-Request-Id": forged})
    lines = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    events = [json.loads(line) for line in lines]
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
    assert not [one for one in events if one.get("reason") == "forged"]
    assert any(one.get("tool") == EVIL for one in events)
    named = [one["request_id"] for one in events if one.get("request_id")]
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]+", one) for one in named), named
    said = capfd.readouterr()
    assert "\x1b[31mred" not in said.out + said.err
    assert not [line for line in (said.out + said.err).splitlines() if line.startswith('{"event":"denied"')]
