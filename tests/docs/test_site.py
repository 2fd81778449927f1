"""The docs' site builds without a warning, needs nothing from elsewhere, and its reference is whole."""

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

from shim.audit.events import EVENTS
from shim.cli.main import cli
from shim.cli.warnings import CHECKS
from shim.config.keys import leaves
from shim.hub.registry import load_errors
from shim.wire import errors

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(900)  # the first test builds the site


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "hooks" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook.pages()


class Fetched(HTMLParser):
    """What a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "link" and named.get("rel") in {"canonical", "next", "prev"}:
            return
        key = {"script": "src", "link": "href", "img": "src", "iframe": "src"}.get(tag)
        if key and named.get(key):
            self.urls.append(str(named[key]))


def test_every_page_is_built(site):
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    pages |= {
        Path("reference", name) for name in ("config.md", "cli.md", "metrics.md", "events.md", "errors.md")
    }
    built = [site / ("index.html" if page.name == "index.md" else page.with_suffix("") / "index.html")
             for page in pages]  # fmt: skip
    assert all(page.is_file() for page in built)


def test_nothing_is_fetched_from_elsewhere(site):
    fetched = Fetched()
    for page in site.rglob("*.html"):
        fetched.feed(page.read_text("utf-8"))
    assert fetched.urls
    assert [url for url in fetched.urls if re.match(r"(https?:)?//", url)] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", sheet.read_text("utf-8")), sheet.name


def test_the_tools_of_the_site_are_not_in_it(site):
    assert not (site / "hooks").exists()


def test_the_reference_has_every_key(reference):
    page = reference["config.md"]
    for path, _ in leaves():
        header = f"`[[{path[0]}]]`" if path == ("upstream", path[-1]) else f"`[{'.'.join(path[:-1])}]`"
        section = page.split(f"## {header}\n", 1)[1].split("\n## ", 1)[0]
        assert f"\n| `{path[-1]}` |" in section, path
    assert all(f"\n| `{one.key}` | {one.when} |" in page for one in CHECKS)


def test_the_reference_has_every_command_and_option(reference):
    def walk(command: click.Command, path: str) -> None:
        section = reference["cli.md"].split(f"# `{path}`\n", 1)[1].split("\n##", 1)[0]
        for option in command.params:
            if isinstance(option, click.Option):
                assert f"`{option.opts[0]}`" in section, (path, option.opts)
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                walk(inner, f"{path} {name}")

    for name, command in cli.commands.items():
        walk(command, f"taskshim {name}")


def test_the_reference_has_every_metric_and_event(reference):
    readme = (ROOT / "README.md").read_text("utf-8")
    told = set(
        re.findall(r"^\| `(taskshim_\w+)` \|", readme, re.MULTILINE)
    )  # tests/test_readme.py holds them
    assert set(re.findall(r"^\| `([^`]+)` \|", reference["metrics.md"], re.MULTILINE)) == told
    assert re.findall(r"^## `(.+)`$", reference["events.md"], re.MULTILINE) == sorted(EVENTS)


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        (-32602, "", errors.unknown_task().message),
        (-32601, "", errors.method_not_found("{method}").message),
        (-32600, "413", "body: larger than limits.body_bytes = {limit_bytes}"),
        (-32020, "", "Header mismatch: {header} is missing; it must be {where}"),
        (-32603, "429", "limits.concurrent_requests is reached"),
        (-32603, "502", "the upstream's answer is larger than limits.frame_bytes"),
        (-32603, "", errors.outcome_unknown().message),
    ],
)
def test_the_reference_has_the_messages_as_clients_read_them(reference, code, status, message):
    assert f"\n| {code} | {status} | `{message}` |\n" in reference["errors.md"]


def test_the_reference_has_every_code(reference):
    for one in load_errors().values():
        assert (
            f"\n| {one.code} | {one.modern or 'never sent'} | {one.legacy or 'never sent'} | "
            in (reference["errors.md"])
        )
