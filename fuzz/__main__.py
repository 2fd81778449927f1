"""The long run: `python -m fuzz --minutes 24 [TARGET...]`."""

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import click

from fuzz.keep import minimised, write
from fuzz.targets import CORPORA, NAMES, corpus, target

_COVERED = re.compile(rb"cov: (\d+) ft: (\d+)")
_RUNS = re.compile(rb"number_of_executed_units: (\d+)")
_MOST_BYTES = 4_096
_WALL_S = 3_600
"""Of one input; generous, since it counts while others have the CPU. The bound on CPU time is in `guided`."""
_FAILED = 1
_LED = re.compile(rb"conversations: (\d+)")
_SEEDS_APART = 1_000_000
CONVERSATIONS = "conversations"
"""What is fuzzed besides the targets."""


@dataclass(frozen=True)
class Run:
    """What came of one target's run: `before` and `after` are edges and features that were reached."""

    name: str
    runs: int
    before: tuple[int, int]
    after: tuple[int, int]
    crashes: tuple[Path, ...]

    def line(self) -> str:
        """Give it as a line of the table."""
        (edges, features), (edges_after, features_after) = self.before, self.after
        return (
            f"{self.name:<16}{self.runs:>12,}{edges:>8}{edges_after - edges:>+8}"
            f"{features:>10}{features_after - features:>+8}{len(self.crashes):>9}"
        )


HEAD = f"{'target':<16}{'executions':>12}{'edges':>8}{'new':>8}{'features':>10}{'new':>8}{'crashes':>9}"


@click.command()
@click.option(
    "--minutes", type=float, default=24.0, show_default=True, help="CPU-minutes, for all targets together."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Where libFuzzer begins.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Targets at a time.")
@click.option("--keep", is_flag=True, help="Keep inputs that take new ways in fuzz/corpora.")
@click.option(
    "--crashes", type=click.Path(path_type=Path), default=Path("crashes"), help="Folder for what crashes."
)
@click.argument("targets", nargs=-1, type=click.Choice((*NAMES, CONVERSATIONS)))
def main(
    minutes: float, seed: int, jobs: int, crashes: Path, targets: tuple[str, ...], *, keep: bool
) -> None:
    """Fuzz the readers, coverage-guided, and lead conversations.

    Exit code 1: something was found, and stands in the folder named.
    """
    crashes.mkdir(parents=True, exist_ok=True)
    chosen = targets or (*NAMES, CONVERSATIONS)
    seconds = minutes * 60 / len(chosen)
    click.echo(HEAD)
    done = []
    with ThreadPoolExecutor(jobs) as pool:
        for run in pool.map(lambda name: _run(name, seconds, seed, crashes, keep=keep), chosen):
            done.append(run)
            click.echo(run.line())
    found = [path for run in done for path in run.crashes]
    click.echo(
        f"{sum(run.runs for run in done):,} executions in {minutes:g} CPU-minutes, {len(found)} crashes"
    )
    for path in found:
        click.echo(f"crash: {path}")
    sys.exit(_FAILED if found else 0)


def _run(name: str, seconds: float, seed: int, crashes: Path, *, keep: bool) -> Run:
    """Run one target, or conversations, in a process of its own."""
    if name == CONVERSATIONS:
        return _conversed(seconds, seed, crashes)
    return _fuzzed(name, seconds, seed, crashes, keep=keep)


def _conversed(seconds: float, seed: int, crashes: Path) -> Run:
    """Lead conversations, which are counted and cover nothing that is measured."""
    before = set(crashes.glob(f"{CONVERSATIONS}-*"))
    arguments = [str(seconds), str(seed * _SEEDS_APART), str(crashes)]
    out = subprocess.run(
        [sys.executable, "-m", "fuzz.conversations", *arguments], check=False, capture_output=True
    )
    led = _LED.search(out.stdout)
    if led is None:
        said = out.stderr.decode("utf-8", "replace")[-2_000:]
        raise click.ClickException(f"{CONVERSATIONS}: ended with {out.returncode}: {said}")
    found = tuple(sorted(set(crashes.glob(f"{CONVERSATIONS}-*")) - before))
    return Run(CONVERSATIONS, int(led[1]), (0, 0), (0, 0), found)


def _fuzzed(name: str, seconds: float, seed: int, crashes: Path, *, keep: bool) -> Run:
    """Run one target in a process of its own, from its corpus on."""
    with tempfile.TemporaryDirectory() as folder:
        found, known, words = Path(folder, "found"), Path(folder, "known"), Path(folder, "words")
        found.mkdir()
        write(known, corpus(name))
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target(name).WORDS), "ascii")
        prefix = f"{crashes / name}-"
        before = set(crashes.glob(f"{name}-*"))
        out = subprocess.run(
            [
                sys.executable, "-m", "fuzz.guided", name, str(seconds), f"-seed={seed}", f"-dict={words}",
                f"-max_len={_MOST_BYTES}", f"-timeout={_WALL_S}", f"-artifact_prefix={prefix}", "-print_final_stats=1",
                "-handle_usr1=1", str(found), str(known),
            ],
            check=False, capture_output=True,
        )  # fmt: skip
        covered = [(int(edges), int(features)) for edges, features in _COVERED.findall(out.stderr)]
        runs = _RUNS.search(out.stderr)
        if not covered or runs is None:
            said = out.stderr.decode("utf-8", "replace")[-2_000:]
            raise click.ClickException(f"{name}: libFuzzer ended with {out.returncode}: {said}")
        crashed = tuple(sorted(set(crashes.glob(f"{name}-*")) - before))
        if crashed:
            click.echo(out.stdout.decode("utf-8", "replace")[-3_000:], err=True)
        elif keep:
            kept = [path.read_bytes() for path in (*found.iterdir(), *known.iterdir())]
            write(CORPORA / name, minimised(name, kept))
        first = next((at for at in covered if at[0]), covered[-1])
        return Run(name, int(runs[1]), first, covered[-1], crashed)


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
