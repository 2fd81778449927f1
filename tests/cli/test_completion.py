"""`taskshim completion`: the scripts, run by the shells that there are."""

import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from shim.cli.main import cli

ASKS = {
    "bash": 'source "$1"\nCOMP_WORDS=({words}) COMP_CWORD={at}\n_taskshim_completion taskshim\n'
            'printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": 'source $argv[1]\ncomplete --do-complete "{line}" | cut -f 1',
    "zsh": "compdef() {{ }}; _describe() {{ print -l -- ${{(@)${{(P)3}}%%:*}} }}\n"
           "compadd() {{ print -l -- ${{(P)5}} }}\n"
           'source "$1"\nwords=({words}) CURRENT=$(({at} + 1))\n_taskshim_completion',
}  # fmt: skip


@pytest.fixture
def command(tmp_path):
    """A taskshim on the path, of the code under test."""
    script = tmp_path / "taskshim"
    script.write_text(f"#!{sys.executable}\nfrom shim.cli.main import cli\ncli()\n")
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}


@pytest.mark.parametrize("shell", list(ASKS))
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("taskshim ch", {"check"}),
        ("taskshim tasks ", {"list", "show", "prune"}),
        ("taskshim serve --co", {"--config"}),
        ("taskshim completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_a_shell_completes(shell, line, offered, command, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    file = tmp_path / "completion"
    file.write_text(CliRunner().invoke(cli, ["completion", shell]).stdout)
    words = [*line.split(), *([""] if line.endswith(" ") else [])]
    ask = ASKS[shell].format(words=" ".join(f'"{one}"' for one in words), at=len(words) - 1, line=line)
    ran = subprocess.run([shell, "-c", ask, *([shell] if shell != "fish" else []), str(file)],
                         env=command, capture_output=True, text=True, check=True)  # fmt: skip
    assert set(ran.stdout.split()) == offered


@pytest.mark.parametrize("shell", ["", "powershell"])
def test_knows_no_other_shell(shell):
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.output
