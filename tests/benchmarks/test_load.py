"""The load generator counts what it should, and its figures are right."""

import math
import random
import sqlite3
from argparse import Namespace

import pytest

from benchmarks import load
from benchmarks.connection import Answer, parse
from benchmarks.load import Recorder
from benchmarks.messages import FIRST_ID, Speaker
from benchmarks.report import Report, Row, Target
from benchmarks.seed import fill
from benchmarks.stats import Figures, median, percentile, summarise
from benchmarks.strangers import compare
from benchmarks.upstream import Canned
from benchmarks.workloads import NEVER_S, Setting, task_id_in


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([7.0], 0.5, 7.0),
        ([7.0], 0.99, 7.0),
        ([1.0, 2.0], 0.5, 1.0),
        ([1.0, 2.0, 3.0], 0.5, 2.0),
        ([float(n) for n in range(1, 101)], 0.5, 50.0),
        ([float(n) for n in range(1, 101)], 0.99, 99.0),
        ([float(n) for n in range(1, 101)], 1.0, 100.0),
        ([float(n) for n in range(1, 101)], 0.0, 1.0),
    ],
)
def test_percentile_is_the_nearest_rank(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


def test_nothing_measured_is_not_a_number() -> None:
    figures = summarise([], errors=3, seconds=1)
    assert math.isnan(figures.p50_ms)
    assert (figures.requests, figures.errors) == (0, 3)


def test_figures_of_unordered_latencies() -> None:
    figures = summarise([0.003, 0.001, 0.002], errors=1, seconds=1.5)
    assert figures.p50_ms == pytest.approx(2)
    assert figures.p99_ms == pytest.approx(3)
    assert figures.rate == pytest.approx(2)
    figures.cpu_s = {"proxy": 0.0006}
    assert figures.cpu_us("proxy") == pytest.approx(200)


def test_each_figure_has_its_own_median() -> None:
    def run(requests: int, p50_ms: float, cpu_s: float) -> Figures:
        return Figures(
            requests=requests, errors=1, seconds=2, p50_ms=p50_ms, p99_ms=9, cpu_s={"proxy": cpu_s}
        )

    figures = median([run(100, 5, 0.1), run(200, 1, 0.6), run(300, 3, 0.6)])
    assert figures.rate == 100
    assert figures.p50_ms == 3
    assert figures.cpu_us("proxy") == pytest.approx(2000)
    assert figures.errors == 3


def test_only_the_window_is_measured() -> None:
    recorder = Recorder()
    recorder.good(1)
    recorder.bad("warm-up")
    recorder.measuring = True
    recorder.good(2)
    recorder.bad("measured")
    assert recorder.latencies_s == [2]
    assert (recorder.errors, recorder.first_error) == (1, "warm-up")


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (HEAD + b"Content-Length: 2\r\n\r\n{}", b"{}"),
        (HEAD + b"content-length:2\r\nX: y\r\n\r\n{}", b"{}"),
        (HEAD + b"Content-Length: 3\r\n\r\n{}", None),
        (HEAD + b"Content-Length: 2\r\n", None),
        (HEAD + b"Content-Length: 0\r\n\r\n", b""),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", None),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"0\r\n\r\n"),
    ],
)
def test_an_answer_is_taken_only_when_it_is_complete(data: bytes, body: bytes | None) -> None:
    answer = parse(data)
    assert (None if answer is None else answer.body) == body


@pytest.mark.parametrize("modern", [False, True])
def test_requests_keep_their_length_whatever_their_id(*, modern: bool) -> None:
    template = Speaker("http://127.0.0.1:1/mcp", "key", modern).request("tools/call", {"name": "echo"})
    first, later = template.fill(FIRST_ID), template.fill(FIRST_ID + 123_456)
    assert len(first) == len(later)
    head, body = later.split(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b'"id":1000123456' in body
    assert (b"Mcp-Name: echo" in head) is modern


@pytest.mark.parametrize(
    "text", [b'{"result":{"task":{"taskId":"a"}}}', b'data: {"result":{"taskId":"a"}}\n\n']
)
def test_the_handle_of_either_era_is_found(text: bytes) -> None:
    assert task_id_in(Answer(200, HEAD, text)) == "a"


def test_what_is_no_handle_is_shown() -> None:
    with pytest.raises(RuntimeError, match="no tasks"):
        task_id_in(Answer(200, HEAD, b'{"error":{"message":"no tasks"}}'))


@pytest.mark.parametrize("sse", [False, True])
@pytest.mark.parametrize("workload", ["call", "poll", "create", "job"])
async def test_a_load_counts_its_requests(aiohttp_raw_server, workload: str, *, sse: bool) -> None:
    canned = Canned(sse=sse)
    server = await aiohttp_raw_server(canned.handle)
    options = Namespace(
        workload=workload, url=str(server.make_url("/mcp")), key="key", modern=False, connections=3,
        tool="job", arguments="", pace_ms=0, warm_up=0, seconds=0.1, watch=[],
    )  # fmt: skip
    figures = await load.measure(options)
    assert (figures.errors, figures.first_error) == (0, None)
    served = canned.counts["tasks/get" if workload == "poll" else "tools/call"]
    assert 0 < figures.requests <= served
    assert served - figures.requests <= 3 + 1  # in flight at the end, and the task that polls wait for


def test_a_task_that_outlasts_the_run_is_asked_for() -> None:
    assert Setting("", "", modern=False).task_call(ends=False)["arguments"] == {"seconds": NEVER_S}
    assert "task" not in Setting("", "", modern=True).task_call(ends=True)


def test_a_ledger_is_filled_with_copies(tmp_path) -> None:
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE task (pk INTEGER PRIMARY KEY, task_id TEXT, upstream_task_id TEXT, caller TEXT)"
        )
        database.execute("INSERT INTO task VALUES (1, 'a', 'a', 'me')")
    database.close()
    fill(path, 50)
    database = sqlite3.connect(path)
    rows = database.execute("SELECT count(*), count(DISTINCT upstream_task_id), min(caller) FROM task")
    assert rows.fetchone() == (50, 50, "me")
    database.close()


@pytest.mark.parametrize(
    ("value", "at_most", "reached"),
    [(1, True, True), (2.1, True, False), (2.1, False, True), (1, False, False), (math.nan, True, False)],
)
def test_a_target_keeps_its_bound(value: float, *, at_most: bool, reached: bool) -> None:
    target = Target(what="x", value=value, bound=2, at_most=at_most)
    assert target.reached is reached
    assert target.line().startswith("reached") is reached


def test_the_table_compares_with_the_pass_through() -> None:
    report = Report(
        rows=[
            Row(cell="call", who="pass-through", p50_ms=0.5, rate=1000),
            Row(cell="call", who="LL", p50_ms=0.6, rate=750, errors=2),
        ]
    )
    line = report.text().splitlines()[2]
    assert line.split() == ["call", "LL", "0.600", "750", "+0.100", "0.75", "2", "ERRORS"]


def test_times_that_differ_are_told_from_times_that_do_not() -> None:
    chance = random.Random(3)  # noqa: S311 - a benchmark, no secret
    noisy = [[chance.gauss(0.001, 0.0002) for _ in range(1_000)] for _ in range(3)]
    same = compare(noisy[0], noisy[1], same_bytes=True)
    apart = compare(noisy[0], [one + 0.0001 for one in noisy[2]], same_bytes=True)
    assert same.apart_us < same.noise_us < 50
    assert 50 < apart.apart_us < 150
    assert apart.apart_us > apart.noise_us
    assert same.foreign_p50_us == pytest.approx(1_000, rel=0.05)
