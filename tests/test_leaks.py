"""The suite's own look for leaks finds one in each kind of log, and what it looks for is really sent."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import planted
from tests.client import LegacyClient, ModernClient
from tests.corners.ml import ALICE, accept, corner, elicit
from tests.scripted import Error, Scripted, text

ROOT = Path(__file__).parent.parent

PLACES = {
    "audit_log": "(tmp_path / 'a').mkdir(); (tmp_path / 'a' / 'audit.jsonl').write_text('x' + SECRET + 'y')",
    "rotated_log": "(tmp_path / 'audit-20261130T120000Z.jsonl').write_text(SECRET)",
    "standard_output": "print('x', SECRET)",
    "standard_error": "print(SECRET, file=sys.stderr)",
    "structlog": "structlog.get_logger('shim').warning('odd', said=SECRET)",
    "logging": "logging.getLogger('aiohttp').warning('said %s', SECRET)",
}
NO_LEAKS = {
    "ledger": "(tmp_path / 'ledger.db').write_text(SECRET)",
    "other_words": "print('nothing')",
}


def suite(folder: Path, secret: str, tests: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run tests that all pass, under the look for leaks."""
    file, base = folder / "test_one.py", folder / "base"
    lines = [
        "import logging, structlog, sys",
        "from tests import planted",
        "planted.sending({'Authorization': 'Bearer token-of-alice'})",
        f"SECRET = {secret}",
        *(f"def test_{name}(tmp_path):\n    {body}" for name, body in tests.items()),
    ]
    file.write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.leaks", "-p", "no:cacheprovider",
         f"--rootdir={folder}", f"--basetemp={base}", str(file)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    shutil.rmtree(base)  # else this run's own look finds it
    return done


@pytest.mark.parametrize("secret", ["planted.MARK", "'Bearer token-of-alice'", "'token-of-alice'"])
def test_a_leak_fails_the_run_although_every_test_passes(tmp_path: Path, secret: str) -> None:
    done = suite(tmp_path, secret, PLACES)
    assert done.returncode == 1, done.stdout
    assert f"{len(PLACES)} passed" in done.stdout
    told = done.stdout.partition("no log may hold")[2]
    assert [name for name in PLACES if f"test_{name}" not in told] == []


def test_what_is_no_leak_fails_nothing(tmp_path: Path) -> None:
    done = suite(tmp_path, "planted.MARK", NO_LEAKS)
    assert done.returncode == 0, done.stdout


@pytest.mark.rule("OWN-STORE")
async def test_what_is_looked_for_goes_both_ways(upstream: Scripted, tmp_path: Path) -> None:
    mark = planted.MARK
    upstream.once("tools/call", text("hi"), Error(-32602))
    async with corner(upstream, tmp_path) as ml:
        assert mark in str((await ml.client.call("plain")).result)
        assert mark in str((await ml.client.call("plain")).error)
        [first, _] = upstream.seen("tools/call")
        assert mark in str(first.params["arguments"])
        assert ALICE["Authorization"].encode() in planted.secrets()
    assert mark in str(elicit(1))
    assert mark in str(accept())
    for client in (ModernClient(upstream.url), LegacyClient(upstream.url)):
        async with client:
            await client.request("ping")
    assert all(mark in seen.headers["X-Planted"] for seen in upstream.seen("ping"))
    assert all(mark in seen.headers["Cookie"] for seen in upstream.seen("ping"))
