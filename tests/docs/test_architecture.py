"""docs/architecture.md names every room and every dependency, and none that is not there."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_room_is_described() -> None:
    told = set(re.findall(r"`(shim/[a-z_]+(?:\.py|/))`", section("The rooms")))
    modules = {f"shim/{path.name}" for path in (ROOT / "shim").glob("*.py")} - {"shim/__init__.py"}
    packages = {f"shim/{path.parent.name}/" for path in (ROOT / "shim").glob("*/__init__.py")}
    assert told == modules | packages


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[\[<>=]", one)[0].lower().removesuffix("-bin") for group in groups for one in group}
    told = set(re.split(r"[^\w-]+", section("Dependencies").lower()))
    assert names - {project["name"]} - told == set()
