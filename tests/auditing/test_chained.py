"""A line that was changed, removed, added or moved is found with its place, and nothing else."""

import gzip
import hashlib
import hmac
import json

import pytest
from click.testing import CliRunner

from shim.audit.chain import PURPOSE, Signer
from shim.audit.events import Denied, InstanceAlive, InstanceStarted, InstanceStopped
from shim.audit.sink import FileSink
from shim.auditing.chained import CHANGED, MISSING, MOVED, NO_KEY, NO_START, UNSIGNED, chained
from shim.auditing.sources import Sources
from shim.callers.keys import Keys
from shim.cli.audit import audit
from tests.full_disk import full_disk

KEY, NEW_KEY = bytes(range(32)), bytes(range(1, 33))
LINES = 10


class Hands:
    """A clock that goes on by a millisecond at each look."""

    def __init__(self, begins_s: int = 1_796_040_000) -> None:
        self.now_ns = begins_s * 1_000_000_000

    def __call__(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns


def run(path, instance, *, key=KEY, begins_s=1_796_040_000, count=LINES, **options):
    """Have a shim's run write so many lines."""
    signer = None if key is None else Signer(key)
    sink = FileSink(path, instance=instance, signer=signer, daily=False, clock_ns=Hands(begins_s), **options)
    for number in range(count):
        sink.emit(Denied(reason=f"reason-{number}"))
    sink.close()


@pytest.fixture
def path(tmp_path):
    """Two runs of ten lines in one file, an hour apart."""
    path = tmp_path / "audit.jsonl"
    run(path, "one")
    run(path, "two", begins_s=1_796_043_600)
    return path


def told(*paths, keys=(KEY,)):
    plain = tuple(path for path in paths if path.suffix != ".gz")
    return chained(Sources(plain, tuple(path for path in paths if path.suffix == ".gz")), keys)


def faults(*paths, keys=(KEY,)):
    return [(row["line"], row["fault"]) for row in told(*paths, keys=keys).faults]


def test_the_mac_is_hmac_sha256_over_the_mac_before_and_the_line(path):
    first, second = path.read_bytes().splitlines()[:2]
    body, mac = first[:-42], json.loads(first)["mac"]
    assert body.endswith(b"}")  # of the chain's beginning
    assert mac == hmac.new(KEY, body, hashlib.sha256).hexdigest()[:32]
    assert (
        json.loads(second)["mac"]
        == hmac.new(KEY, mac.encode() + second[:-42], hashlib.sha256).hexdigest()[:32]
    )


def test_only_a_runs_first_line_says_what_came_before(path):
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    chains = {number: line["chain"]["after"] for number, line in enumerate(lines) if "chain" in line}
    assert chains == {0: "", LINES: lines[LINES - 1]["mac"]}


def test_an_untouched_log_has_no_fault(path):
    found = told(path)
    assert (found.signed, found.count, found.faults) == (2 * LINES, 0, ())


def changed(lines):
    lines[4] = lines[4].replace(b"reason-4", b"reason-x")


def renumbered(lines):
    lines[4] = lines[4].replace(b'"seq":5', b'"seq":55')


def removed(lines):
    del lines[4]


def removed_and_the_rest_renumbered(lines):
    del lines[4]
    for at in range(4, LINES - 1):
        lines[at] = lines[at].replace(b'"seq":%d,' % (at + 2), b'"seq":%d,' % (at + 1))


def put_in(lines):
    lines.insert(4, lines[4].replace(b"reason-4", b"reason-x"))


def swapped(lines):
    lines[4], lines[5] = lines[5], lines[4]


def repeated(lines):
    lines.insert(6, lines[4])


def stripped(lines):
    lines[4] = lines[4][:-42] + b"}"


def spaced(lines):
    lines[4] = lines[4].replace(b'{"v":1,', b'{ "v":1,')


def first_run_gone(lines):
    del lines[:LINES]


def end_of_first_run_gone(lines):
    del lines[LINES - 3 : LINES]


def begin_of_second_run_gone(lines):
    del lines[LINES : LINES + 2]


def second_run_alone_without_its_begin(lines):
    del lines[: LINES + 2]


@pytest.mark.parametrize(
    ("tamper", "expected"),
    [
        (changed, [(5, CHANGED)]),
        (renumbered, [(5, MISSING)]),
        (removed, [(5, MISSING)]),
        (removed_and_the_rest_renumbered, [(at, CHANGED) for at in range(5, LINES)]),
        (put_in, [(5, CHANGED)]),
        (swapped, [(5, MISSING), (7, MOVED)]),
        (repeated, [(7, MOVED)]),
        (stripped, [(5, UNSIGNED), (6, MISSING)]),
        (spaced, [(5, UNSIGNED), (6, MISSING)]),
        (end_of_first_run_gone, [(LINES - 2, NO_START)]),
        (begin_of_second_run_gone, [(LINES + 1, NO_START)]),
        # logs may begin anywhere: what was before all of them is not asked for
        (first_run_gone, []),
        (second_run_alone_without_its_begin, []),
    ],
)
def test_what_was_done_to_a_file_is_found_where_it_was_done(path, tamper, expected):
    lines = path.read_bytes().splitlines()
    tamper(lines)
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert faults(path) == expected


def test_a_run_taken_out_of_the_middle_is_found(path):
    run(path, "three", begins_s=1_796_047_200)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:LINES] + lines[2 * LINES :]))
    assert faults(path) == [(LINES + 1, NO_START)]


def rotated(folder):
    path = folder / "audit.jsonl"
    run(path, "one", max_bytes=600, count=20)
    run(path, "two", max_bytes=600, count=20, begins_s=1_796_043_600)
    files = sorted(folder.glob("audit*.jsonl"))
    assert len(files) > 5
    return files


def test_the_chain_goes_on_over_rotated_files_in_any_order_and_packed(tmp_path):
    files = rotated(tmp_path)
    packed = tmp_path / "old.gz"
    packed.write_bytes(gzip.compress(files[0].read_bytes()))
    found = told(*reversed(files[1:]), packed)
    assert (found.signed, found.count) == (40, 0)


def test_a_rotated_file_taken_away_is_found(tmp_path):
    files = rotated(tmp_path)
    [(row)] = told(*(file for file in files if file != files[2])).faults
    assert row["fault"] == MISSING
    assert row["seq"] - 1 == json.loads(files[2].read_bytes().splitlines()[-1])["seq"]


def test_overlapping_files_are_no_fault(tmp_path, path):
    lines = path.read_bytes().splitlines(keepends=True)
    parts = [tmp_path / f"part-{n}.jsonl" for n in range(4)]
    for part, (begin, end) in zip(parts, [(0, 8), (5, 14), (0, 20), (5, 20)], strict=True):
        part.write_bytes(b"".join(lines[begin:end]))
    assert told(*parts).count == 0


def test_torn_lines_are_not_the_chains_matter(path):
    with path.open("ab") as file:
        file.write(b'{"v":1,"seq":11,"ts":"2026')
    run(path, "three", begins_s=1_796_047_200)
    assert (told(path).signed, told(path).count) == (3 * LINES, 0)


def test_two_shims_in_one_file_have_a_chain_each(tmp_path):
    run(tmp_path / "a", "one")
    run(tmp_path / "b", "two")
    mixed = tmp_path / "mixed"
    both = zip(*((tmp_path / name).read_bytes().splitlines() for name in "ab"), strict=True)
    mixed.write_bytes(b"".join(line + b"\n" for pair in both for line in pair))
    assert (told(mixed).signed, told(mixed).count) == (2 * LINES, 0)


def test_lines_from_before_the_key_are_told_once_with_their_number(tmp_path):
    path = tmp_path / "audit.jsonl"
    run(path, "one", key=None)
    run(path, "two", begins_s=1_796_043_600)
    [row] = told(path).faults
    assert (row["line"], row["lines"], row["fault"]) == (1, LINES, UNSIGNED)
    assert told(path).signed == LINES


def test_after_a_rotation_of_keys_the_old_one_still_verifies(path):
    run(path, "three", key=NEW_KEY, begins_s=1_796_047_200)
    assert told(path, keys=(NEW_KEY, KEY)).count == 0
    [one, two] = told(path, keys=(NEW_KEY,)).faults
    assert (one["line"], one["lines"], one["fault"]) == (1, LINES, NO_KEY)
    assert (two["line"], two["lines"], two["fault"]) == (LINES + 1, LINES, NO_KEY)


@pytest.mark.parametrize("takes", [0, 1, 250])
def test_what_a_full_disk_refuses_does_not_break_the_chain(tmp_path, monkeypatch, takes):
    """The disk takes so many bytes, then nothing until three events are lost, then everything."""
    path = tmp_path / "audit.jsonl"
    sink = FileSink(path, instance="one", signer=Signer(KEY), daily=False)
    room = full_disk(monkeypatch, takes)
    while sink.dropped < 3:
        sink.emit(Denied(reason="y" * 60))
    room[0] = None
    sink.emit(Denied(reason="after"))
    sink.close()
    found = told(path)
    assert found.count == 0
    assert found.signed >= 2
    assert b"audit.dropped" in path.read_bytes()


@pytest.fixture
def whole(tmp_path):
    """A log that is whole, of a shim with a key file, and that file."""
    keys, path = tmp_path / "audit.key", tmp_path / "audit.jsonl"
    signer = Signer(Keys.load(keys).derived(PURPOSE)[0])
    sink = FileSink(path, instance="one", signer=signer, clock_ns=Hands())
    sink.emit(InstanceStarted(version="1", config_digest="x"))
    sink.emit(InstanceAlive(requests={}, sessions=0, waiting=(), dropped=0))
    sink.emit(Denied(reason="not_owner"))
    sink.emit(InstanceStopped(version="1", config_digest="x"))
    sink.close()
    return path, keys


def verify(path, *options):
    return CliRunner().invoke(audit, ["verify", str(path), *map(str, options)])


def test_verify_with_a_key_says_that_it_holds_and_where_it_does_not(whole):
    path, keys = whole
    good = verify(path, "--key-file", keys)
    assert (good.exit_code, "4 lines stand as the shim wrote them" in good.output) == (0, True)
    assert "not looked at" not in good.output
    path.write_bytes(path.read_bytes().replace(b"not_owner", b"no_owner!"))
    blind = verify(path)  # without the key nothing tells, and the answer says so
    assert (blind.exit_code, "macs that were not looked at" in blind.output) == (0, True)
    bad = verify(path, "--key-file", keys)
    assert bad.exit_code == 1
    assert bad.output.endswith("not whole: 1 line does not stand as the shim wrote it\n")
    [row] = json.loads(verify(path, "--key-file", keys, "--json").output)["chain"]["faults"]
    assert (row["file"], row["line"], row["fault"]) == (str(path), 3, CHANGED)


@pytest.mark.parametrize("command", [["report"], ["gate", "--rule", "no-open-tasks"]])
def test_a_changed_line_is_a_doubt(whole, command):
    path, keys = whole
    path.write_bytes(path.read_bytes().replace(b"not_owner", b"no_owner!"))
    result = CliRunner().invoke(audit, [*command, str(path), "--key-file", str(keys)])
    assert f"1 line does not stand as the shim wrote it; the first one in {path}, line 3" in result.output


def test_a_key_file_that_is_not_there_is_one_line_and_none_is_made(whole, tmp_path):
    result = verify(whole[0], "--key-file", tmp_path / "none")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "--key-file" in result.stderr
    assert not (tmp_path / "none").exists()
