"""The wheel: what is in it, that it runs alone, and that all it needs comes as wheels."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(600)  # it asks the package index


def pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT))
    [built] = folder.iterdir()
    return built


def test_holds_the_package_and_its_tables_and_nothing_else(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
    ours = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "shim").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    tables = {f"shim/mappings/{path.name}" for path in (ROOT / "mappings").iterdir() if path.is_file()}
    assert tables
    assert names == ours | tables


def test_runs_by_what_is_in_it(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(tmp_path)
    asked = "import shim; from shim.cli.main import cli; print(shim.__file__); cli(['mappings', 'sep-2663'])"
    ran = subprocess.run([sys.executable, "-c", asked], env={**os.environ, "PYTHONPATH": str(tmp_path)},
                         cwd=tmp_path, check=True, capture_output=True, text=True)  # fmt: skip
    where, _, table = ran.stdout.partition("\n")
    assert where == str(tmp_path / "shim" / "__init__.py")
    assert "sep-2663" in table


@pytest.mark.parametrize("version", ["3.11", "3.13"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_needs_no_compiler(wheel, tmp_path, version, machine):
    platforms = [f"--platform=manylinux{glibc}_{machine}" for glibc in ("2014", "_2_17", "_2_28")]
    said = pip(
        "install", "--dry-run", "--ignore-installed", "--only-binary=:all:", f"--target={tmp_path}",
        f"--python-version={version}", *platforms, f"{wheel}[audit,jwt]",
    )  # fmt: skip
    assert "Would install" in said
    assert "taskshim-" in said
