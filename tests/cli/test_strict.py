"""`taskshim check --strict`: every warning, by a config that earns it and one that does not."""

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from shim.cli.check import check
from shim.cli.warnings import CHECKS, Checked, warnings_of
from shim.clock import SystemClock
from shim.config import Config
from shim.ledger.payloads import InMemory, Payloads
from shim.ledger.sqlite import SqliteLedger

TODAY = date(2026, 11, 30)
UPSTREAM = {"url": "https://server.example.org/mcp", "dialect": "experimental"}
SAFE = {
    "upstream": [UPSTREAM],
    "identity": {"sources": ["header"]},
    "audit": {"path": "audit.jsonl"},
}
ASKING = {"url": "https://i.example/i", "issuer": "i", "auth": "bearer", "client_secret": "secret"}
SHADOW = {"tools": ["search"]}
SERVICE = {**UPSTREAM, "credentials": "service", "service_token": "secret"}


def warned(config: dict, file: Path | None = None) -> list[str]:
    found = list(warnings_of(Checked(Config.model_validate(config), file, TODAY)))
    assert all(line.startswith(f"{key}: ") and "\n" not in line for key, line in found)
    return [key for key, _ in found]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


CASES = [
    ("identity.sources", {"identity": {"sources": []}}, {"identity": {"sources": ["token"]}}),
    (
        "identity.anonymous",
        {"identity": {"sources": ["header"], "anonymous": True}},
        {"identity": {"sources": ["header"], "anonymous": False}},
    ),
    (
        "upstream.credentials",
        {"upstream": [SERVICE], "identity": {"sources": ["header", "token"]}},
        {"upstream": [SERVICE, {**UPSTREAM, "name": "other"}], "identity": {"sources": ["token"]}},
    ),
    (
        "upstream.credentials",
        {"upstream": [SERVICE], "identity": {"sources": ["token"]}},
        {"upstream": [SERVICE]},
    ),
    (
        "identity.header.trusted_proxies",
        {"identity": {"sources": ["header"], "header": {"trusted_proxies": ["0.0.0.0/0"]}}},
        {"identity": {"sources": ["header"], "header": {"trusted_proxies": ["10.0.0.0/8", "fd00::/8"]}}},
    ),
    (
        "identity.introspection.audience",
        {"identity": {"sources": ["introspection"], "introspection": ASKING}},
        {"identity": {"sources": ["introspection"], "introspection": {**ASKING, "audience": ["a"]}}},
    ),
    (
        "listen.allowed_hosts",
        {"listen": {"host": "0.0.0.0"}},
        {"listen": {"host": "0.0.0.0", "allowed_hosts": ["mcp.example.org"]}},
    ),
    ("admin.host", {"admin": {"host": "0.0.0.0"}}, {"admin": {"host": "0.0.0.0", "enabled": False}}),
    ("admin.host", {"admin": {"host": "shim.example.org"}}, {"admin": {"host": "::1"}}),
    (
        "upstream.url",
        {"upstream": [{**UPSTREAM, "url": "http://server:3000/mcp"}]},
        {"upstream": [{**UPSTREAM, "url": "http://localhost:3000/mcp"}]},
    ),
    (
        "upstream.url",
        {"upstream": [{**SERVICE, "url": "http://10.0.0.1/mcp"}]},
        {"upstream": [{**UPSTREAM, "credentials": "none", "url": "http://10.0.0.1/mcp"}]},
    ),
    ("upstream.dialect", {"upstream": [{"url": "https://a.example/mcp"}]}, {}),
    ("audit.path", {"audit": {}}, {}),
    ("ledger.synchronous", {"ledger": {"synchronous": "normal"}}, {"ledger": {"synchronous": "full"}}),
    (
        "ledger.store_results",
        {"ledger": {"store_results": False}, "tasks": {"promote": ["export_*"]}},
        {"ledger": {"store_results": False}},
    ),
    ("cutover.sunset", {"cutover": {"sunset": date(2026, 11, 29)}}, {"cutover": {"sunset": TODAY}}),
    (
        "cutover.shadow",
        {
            "upstream": [UPSTREAM, {**UPSTREAM, "name": "new"}],
            "cutover": {"shadow": {**SHADOW, "upstream": "new"}},
        },
        {
            "upstream": [UPSTREAM, {**SERVICE, "name": "new"}],
            "cutover": {"shadow": {**SHADOW, "upstream": "new"}},
        },
    ),
    (
        "ownership.adopt_until",
        {"ownership": {"adopt_until": datetime(2026, 11, 29, tzinfo=UTC)}},
        {"ownership": {"adopt_until": datetime(2026, 11, 29, tzinfo=UTC) + timedelta(days=1)}},
    ),
]


def test_a_config_for_production_earns_none():
    assert warned(SAFE) == []


@pytest.mark.parametrize(("key", "bad", "good"), CASES)
def test_warns_of_what_is_not_for_production(key, bad, good):
    assert warned({**SAFE, **bad}) == [key]
    assert warned({**SAFE, **good}) == []


FILES = {
    "ledger.path": ({"ledger": {"path": "it"}}, 0o600, 0o640),
    "audit.path": ({"audit": {"path": "it"}}, 0o600, 0o640),
    "audit.key_file": ({"audit": {"path": "audit.jsonl", "key_file": "it"}}, 0o600, 0o640),
    "identity.key_file": ({"identity": {"sources": ["header"], "key_file": "it"}}, 0o600, 0o640),
    "identity.api_key.file": (
        {"identity": {"sources": ["api_key"], "api_key": {"file": "it"}}},
        0o640,
        0o644,
    ),
}


@pytest.mark.rule("DUR-8")
async def test_warns_of_results_that_the_next_start_takes_out(folder):
    file = folder / "it.db"
    off = {**SAFE, "ledger": {"path": file, "store_results": False}}
    for payloads, expected in (
        (Payloads(), ["ledger.store_results"]), (InMemory(lambda: 1, lambda: None), []),
    ):  # fmt: skip
        ledger = SqliteLedger(file, SystemClock(), payloads=payloads)
        await ledger.open()
        await ledger.close()
        assert warned(off) == expected
        assert warned({**SAFE, "ledger": {"path": file}}) == []


@pytest.mark.rule("OWN-STORE")
@pytest.mark.parametrize("key", FILES)
def test_warns_of_a_file_that_is_open_to_others(key, folder):
    config, good, bad = FILES[key]
    (folder / "it").write_text("ann = key\n")
    (folder / "it").chmod(good)
    assert warned({**SAFE, **config}) == []
    (folder / "it").chmod(bad)
    assert warned({**SAFE, **config}) == [key]


def test_warns_of_a_file_of_keys_that_holds_none(folder):
    config, mode, _ = FILES["identity.api_key.file"]
    (folder / "it").write_text("# name = key\n")
    (folder / "it").chmod(mode)
    assert warned({**SAFE, **config}) == ["identity.api_key.file"]
    (folder / "it").write_text("# name = key\nann = sha256:" + "0" * 64)
    assert warned({**SAFE, **config}) == []


@pytest.mark.rule("OWN-STORE")
@pytest.mark.parametrize("key", ["ledger.path", "audit.path", "audit.key_file", "identity.key_file"])
def test_warns_of_a_folder_where_anyone_may_put_another_file(key, folder):
    config, _, _ = FILES[key]
    (folder / "open").mkdir()
    place = {**SAFE, "ledger": {"path": "open/it"}, "audit": {"path": "open/it", "key_file": "open/it"}}
    place["identity"] = {"sources": ["header"], "key_file": "open/it"}
    (folder / "open").chmod(0o777)
    assert key in warned(place)
    (folder / "open").chmod(0o1777)
    assert key in warned(place)  # who is first makes it
    (folder / "open" / "it").symlink_to(folder / "elsewhere")
    assert key in warned(place)
    (folder / "open" / "it").unlink()
    (folder / "open" / "it").touch(0o600)
    assert warned(place) == []
    assert warned({**SAFE, **config}) == []


@pytest.mark.rule("OWN-STORE")
@pytest.mark.parametrize(
    "secret",
    [
        {"upstream": [SERVICE]},
        {"upstream": [{**UPSTREAM, "headers": {"X-Door": "secret"}}]},
        {"identity": {"sources": ["api_key"], "api_key": {"keys": {"ann": "secret"}}}},
        {"admin": {"token": "sixteen or more characters"}},
    ],
)
def test_warns_of_secrets_in_a_config_that_is_open_to_everyone(secret, folder):
    file = folder / "shim.toml"
    file.touch()
    file.chmod(0o644)
    assert warned({**SAFE, **secret}, file) == ["config"]
    assert warned(SAFE, file) == []
    file.chmod(0o640)
    assert warned({**SAFE, **secret}, file) == []


def test_every_check_is_tried():
    tried = {key for key, _, _ in CASES} | set(FILES) | {"config"}
    tried.add("cutover.shadow.tools")  # in test_check.py: the servers have to be asked
    assert tried == {one.key for one in CHECKS}


@pytest.mark.parametrize(
    ("arguments", "code", "lines"),
    [
        ([], 0, 2),
        (["--strict"], 1, 2),
        (["--strict", "--accept", "audit.path"], 1, 1),
        (["--strict", "--accept", "audit.path", "--accept", "identity.sources"], 0, 0),
        (["--accept", "audit.pat"], 2, None),
    ],
)
def test_strict_takes_a_warning_for_a_fault(arguments, code, lines, folder):
    file = folder / "shim.toml"
    file.write_text('[[upstream]]\nurl = "https://a.example/mcp"\ndialect = "experimental"\n')
    result = CliRunner().invoke(check, ["--config", str(file), *arguments])
    assert result.exit_code == code
    if lines is not None:
        assert len(re.findall("^warning: ", result.stderr, re.MULTILINE)) == lines
