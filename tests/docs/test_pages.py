"""The tutorial and the how-tos do what they say: their blocks are run, in order, in an empty folder."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shim.config import ConfigError, load_config
from shim.demo import experimental, modern
from tests.docs.blocks import Block, blocks, fits
from tests.peers.venvs import legacy_python
from tests.ports import free_port

DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = DOCS / "tutorial.md"
HOW_TOS = [DOCS / "identity.md", *sorted((DOCS / "how-to").glob("*.md"))]
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
FRAGMENT = '[[upstream]]\nurl = "http://127.0.0.1:3000/mcp"\n'
PATIENCE_S = 240

COMMAND = f"#!{sys.executable}\nfrom shim.cli.main import cli\ncli()\n"


class Page:
    """A page that is being followed, with ports of its own for those it names."""

    def __init__(self, folder: Path, ports: dict[str, int]) -> None:
        self.folder = folder
        self.ports = ports
        self._running: dict[str, asyncio.subprocess.Process] = {}
        tools = folder.parent / f"{folder.name}-tools"
        tools.mkdir()
        (tools / "taskshim").write_text(COMMAND)
        (tools / "taskshim").chmod(0o755)
        self._env = {
            "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "LANG": "C.UTF-8",
            # of a config that names no ports, too
            "TASKSHIM_LISTEN_PORT": str(ports["8765"]),
            "TASKSHIM_ADMIN_PORT": str(ports["8766"]),
        }

    def real(self, text: str) -> str:
        """Put the page's ports in the place of those that it names."""
        return re.sub(r"\b(?:3000|3001|8765|8766)\b", lambda found: str(self.ports[found[0]]), text)

    def told(self, text: str) -> str:
        """Name the ports as the page does."""
        for name, port in self.ports.items():
            text = text.replace(str(port), name)
        return text

    async def follow(self, block: Block) -> None:
        """Do what a reader does with a block."""
        if "not run" in block.said:
            return
        if port := block.said.get("stops"):
            await self._stop(port)
        if block.title is not None:
            (self.folder / block.title).write_text(self.real(block.text))
        if block.title is not None or block.kind != "sh":
            return
        if port := block.said.get("background"):
            await self._start(block, port)
            return
        process = await self._run(block, asyncio.subprocess.PIPE)
        printed, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        said = self.told(printed.decode())
        assert process.returncode == int(block.said.get("exits", "0")), said
        if block.prints is not None:
            assert fits(block.prints, said), f"line {block.line} prints\n{said}"

    async def _run(self, block: Block, out: Any) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            "bash", "-euo", "pipefail", "-c", self.real(block.text), cwd=self.folder, env=self._env,
            stdin=asyncio.subprocess.DEVNULL, stdout=out,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    async def _start(self, block: Block, port: str) -> None:
        log = self.folder.parent / f"{port}.log"
        with log.open("wb") as out:
            process = await self._run(block, out)
        self._running[port] = process
        async with asyncio.timeout(PATIENCE_S):
            while not await self._answers(port):
                assert process.returncode is None, log.read_text()

    async def _answers(self, port: str) -> bool:
        await asyncio.sleep(0)
        try:
            _, out = await asyncio.open_connection("127.0.0.1", self.ports[port])
        except OSError:
            return False
        out.close()
        return True

    async def _stop(self, port: str) -> None:
        process = self._running.pop(port)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await asyncio.wait_for(process.wait(), PATIENCE_S)

    async def close(self) -> None:
        for port in list(self._running):
            await self._stop(port)


@contextlib.asynccontextmanager
async def page_in(folder: Path, **servers: int) -> AsyncIterator[Page]:
    ports = {name: servers.get(f"at_{name}") or free_port() for name in ("3000", "3001", "8765", "8766")}
    place = folder / "reader"
    place.mkdir()
    page = Page(place, ports)
    try:
        yield page
    finally:
        await page.close()


def named(page: Path) -> str:
    return str(page.relative_to(DOCS.parent))


@pytest.mark.peers
async def test_the_tutorial_does_what_it_says(tmp_path):
    async with page_in(tmp_path) as page:
        # what its first step installs
        (page.folder / "server-env").symlink_to(legacy_python().parents[1])
        for block in blocks(TUTORIAL):
            await page.follow(block)


@pytest.mark.parametrize("path", HOW_TOS, ids=lambda path: path.stem)
async def test_a_how_to_does_what_it_says(path, tmp_path):
    old, old_url = await experimental.start()
    new, new_url = await modern.start()
    ports = [int(url.split(":")[2].partition("/")[0]) for url in (old_url, new_url)]
    try:
        async with page_in(tmp_path, at_3000=ports[0], at_3001=ports[1]) as page:
            for block in blocks(path):
                await page.follow(block)
    finally:
        await old.cleanup()
        await new.cleanup()


def configs() -> list:
    return [
        pytest.param(block.text, id=f"{named(page)}:{block.line}")
        for page in PAGES
        for block in blocks(page)
        if block.kind == "toml" and "not run" not in block.said
    ]


@pytest.mark.parametrize("text", configs())
def test_a_config_of_the_docs_is_one(text, tmp_path):
    file = tmp_path / "taskshim.toml"
    for whole in (text, FRAGMENT + text):
        file.write_text(whole)
        try:
            load_config(file, {}, {})
        except ConfigError as exc:
            fault = exc
        else:
            return
    pytest.fail(str(fault))


def test_each_block_of_the_followed_pages_is_of_a_kind_that_is_run_or_shown():
    kinds = {block.kind for page in [TUTORIAL, *HOW_TOS] for block in blocks(page)}
    assert kinds <= {"sh", "toml", "python", "text"}


def test_what_a_block_prints_belongs_to_it(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- exits: 1 -->\n```sh\nfalse\n```\n\n```text\nno\n```\n"
        'a <!-- not run: why -->\n\n```sh title="x.sh"\ntrue\n```\n```text\na picture\n```\n'
    )
    first, second, picture = blocks(page)
    assert (first.text, first.prints, first.said) == ("false\n", "no\n", {"exits": "1"})
    assert (second.title, second.prints, second.said) == ("x.sh", None, {"not run": "why"})
    assert (picture.kind, picture.text) == ("text", "a picture\n")


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\n...\nb", "a\nx\ny\nb\n", True),
        ("a\n...\nb", "a\nb", True),
        ("a ... c", "a b c", True),
        ("a ... c", "a b d", False),
        ("a", "a\nb", False),
        ("a.c", "abc", False),
    ],
)
def test_output_is_compared(expected, printed, same):
    assert fits(expected, printed) is same
