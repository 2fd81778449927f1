"""CS-TABLE: a site's own table, all names changed, works on both sides; it is the one that the docs show."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from shim.demo import experimental
from shim.demo.endpoint import Session, serve_at, start_app
from shim.demo.four_state import FourState
from shim.demo.jobs import Job, Json
from shim.hub.dialect import load_dialect
from shim.hub.registry import load_dialects
from tests.client import LegacyClient, ModernClient
from tests.corners.lm import ACK, asks, made, seen_as
from tests.corners.lm import corner as modern_corner
from tests.corners.test_cs_pairs import ALICE, BOB, YES, until
from tests.scripted import Error, Scripted, Seen, text
from tests.shim import config_for

DOCS = Path(__file__).parents[2] / "docs" / "own-dialect.md"
TABLE = re.search(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL).group(1)  # type: ignore[union-attr]
JOBS, FOUR = load_dialect(TABLE, "jobs.toml"), load_dialects()["create-status"]
FIELDS = {"jobId", "state", "startedAt", "changedAt", "keepMs", "askAgainMs"}
STATES = {"pending": "queued", "running": "busy", "done": "ready", "error": "broken"}
Handler = Callable[[Session, Json], Coroutine[Any, Any, Json]]


def renaming(section: str) -> dict[str, str]:
    """The create-status names of a section -> the own ones."""
    old, new = getattr(FOUR, section), getattr(JOBS, section)
    return {name: getattr(new, key) for key, name in old if name}


OUT = renaming("fields") | renaming("members")
IN = {own: name for name, own in OUT.items()}


class JobServer(FourState):
    """A server of the own dialect: the four-state one under other names."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        own = renaming("methods")
        self.methods = {own.get(name, name): self._named(name, serve) for name, serve in self.methods.items()}

    def show(self, job: Job) -> Json:
        shown = super().show(job)
        state = {"cancelled": "stopped", "input_required": "asking"}.get(job.state, STATES[shown["status"]])
        own = {OUT[key]: value for key, value in shown.items()}
        return {**own, "state": state, "changedAt": own["startedAt"]}

    def _named(self, name: str, serve: Handler) -> Handler:
        if not name.startswith("tasks/"):
            return serve

        async def served(session: Session, params: Json) -> Json:
            answer = await serve(session, {IN.get(key, key): value for key, value in params.items()})
            if name == "tasks/create":
                return {"job": answer}
            return (
                {OUT.get(key, key): value for key, value in answer.items()}
                if name == "tasks/list"
                else answer
            )

        return served


@asynccontextmanager
async def in_front(server: FourState | str, folder: Path, **sections: Any) -> AsyncIterator[App]:
    """A shim that knows the own table, in front of a job server, or of a running server at a URL."""
    table = folder / "jobs.toml"
    table.write_text(TABLE, "utf-8")
    identity = {"sources": ("api_key",), "api_key": {"keys": {"alice": "a-key", "bob": "b-key"}}}
    runner = None
    if isinstance(server, str):
        url = server
    else:
        runner, url = await start_app(serve_at(server, "/mcp"), "127.0.0.1", 0, "/mcp")
        sections["upstream"] = {"dialect": "jobs", "sessions": server.sessions}
    config = config_for(url, folder, identity=identity, mappings={"files": (table,)}, **sections)
    try:
        async with running(config) as app:
            yield app
    finally:
        if runner is not None:
            await runner.cleanup()


async def jobs(client: LegacyClient, verb: str, job_id: str | None = None, **params: Any) -> Any:
    """A request of the own dialect; gives its message."""
    named = {} if job_id is None else {"jobId": job_id}
    reply = await client.request(f"jobs/{verb}", {**named, **params})
    return {key: value for key, value in reply.json.items() if key not in {"jsonrpc", "id"}}


async def start(client: LegacyClient, tool: str, **arguments: Any) -> str:
    made_job = (await jobs(client, "start", name=tool, arguments=arguments, keepMs=60_000))["result"]
    assert set(made_job) == {"job"}
    assert (set(made_job["job"]), made_job["job"]["state"]) == (FIELDS, "queued")
    return str(made_job["job"]["jobId"])


async def state(client: LegacyClient, job_id: str, *states: str) -> Any:
    """Ask until a job is in one of the states."""
    while (seen := (await jobs(client, "state", job_id))["result"])["state"] not in states:
        assert set(seen) - {"note", "open"} == FIELDS
        await asyncio.sleep(0.02)  # the pace the server asked for
    return seen


# -- clients of the own dialect ------------------------------------------------------------------


@pytest.fixture(params=["a job server", "a job server without sessions", "an experimental server"])
async def own(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LegacyClient]:
    """A client of the own dialect on servers of it and of another."""
    options: dict[str, Any] = {"poll_interval_ms": 20}
    runner = None
    server: FourState | str
    sections: dict[str, Any] = {}
    if request.param == "an experimental server":
        runner, server = await experimental.start(**options)
        sections["upstream"] = {"dialect": "experimental"}
    else:
        server = JobServer(sessions="without" not in request.param, **options)
    async with (
        in_front(server, tmp_path, **sections) as app,
        LegacyClient(app.url, headers=ALICE) as client,
    ):
        if "without" not in request.param:
            await client.initialize()
        yield client
    if runner is not None:
        await runner.cleanup()


@pytest.mark.rule("CS-TABLE")
async def test_a_job_runs_and_gives_its_outcome(own: LegacyClient) -> None:
    job_id = await start(own, "resize_images", seconds=0)
    assert set(await state(own, job_id, "ready")) - {"note"} == FIELDS
    outcome = (await jobs(own, "outcome", job_id))["result"]
    assert outcome["structuredContent"] == {"resized": 4}
    assert "_meta" not in outcome


@pytest.mark.rule("CS-TABLE")
async def test_a_job_that_crashes_is_broken(own: LegacyClient) -> None:
    job_id = await start(own, "crashes")
    await state(own, job_id, "broken")
    assert (await jobs(own, "outcome", job_id))["error"]["code"] == -32000


@pytest.mark.rule("CS-TABLE")
async def test_a_job_is_stopped(own: LegacyClient) -> None:
    job_id = await start(own, "resize_images", seconds=60)
    assert (await jobs(own, "stop", job_id))["result"]["state"] == "stopped"
    assert (await jobs(own, "state", job_id))["result"]["state"] == "stopped"
    assert (await jobs(own, "stop", job_id))["error"]["code"] == -32602


@pytest.mark.rule("CS-TABLE")
async def test_the_list_has_the_own_names(own: LegacyClient) -> None:
    made_here = [await start(own, "resize_images", seconds=60) for _ in range(2)]
    page = (await jobs(own, "all"))["result"]
    assert [one["jobId"] for one in page["jobs"]] == made_here[::-1]
    assert all(set(one) - {"note"} == FIELDS for one in page["jobs"])
    assert (await jobs(own, "all", after="not a cursor"))["error"]["code"] == -32602


@pytest.mark.rule("CS-TABLE", "CS-INPUT")
async def test_a_question_of_a_job_is_answered(own: LegacyClient) -> None:
    job_id = await start(own, "deploy", seconds=0)
    if own.session is None:
        while not (shown := await state(own, job_id, "asking")).get("open"):
            pass
        assert (await jobs(own, "reply", job_id, replies=dict.fromkeys(shown["open"], YES)))["result"] == {}
        done = (await jobs(own, "outcome", job_id))["result"]
    else:
        async with own.stream("jobs/outcome", {"jobId": job_id}) as stream:
            asked = await stream.message()
            assert (await own.respond(asked["id"], YES)).status == 202
            done = (await stream.message())["result"]
    assert done["structuredContent"] == {"deployed": True}


@pytest.mark.rule("CS-TABLE", "OWN-CHECK")
@pytest.mark.parametrize("verb", ["state", "outcome", "stop", "reply"])
async def test_a_foreign_job_is_an_unknown_one(own: LegacyClient, verb: str) -> None:
    job_id = await start(own, "resize_images", seconds=60)
    async with LegacyClient(own.url, headers=BOB) as bob:
        await bob.initialize()
        told = [await jobs(bob, verb, one, replies={}) for one in (job_id, "nobody's")]
        assert told[0] == told[1]
        assert told[0]["error"]["code"] == -32602
        assert (await jobs(bob, "all"))["result"] == {"jobs": []}


@pytest.mark.rule("CS-TABLE", "VALIDATE")
@pytest.mark.parametrize("name", ["jobID", "KeepMs", "Replies", "JOB"])
async def test_an_own_name_in_another_case_is_refused(own: LegacyClient, name: str) -> None:
    reply = await own.request("jobs/start", {"name": "resize_images", name: "x"})
    assert (reply.status, reply.error["code"]) == (400, -32600)


@pytest.mark.rule("CS-TABLE", "CS-DETECT")
async def test_a_method_of_the_own_dialect_does_not_exist_on_a_pinned_address(own: LegacyClient) -> None:
    for path in ("/create-status", "/jobs"):
        reply = await own.request("jobs/start", {"name": "resize_images"}, url=own.url.replace("/mcp", path))
        assert reply.error["code"] == -32601
    assert (await jobs(own, "all"))["result"] == {"jobs": []}


@pytest.mark.rule("CS-TABLE")
async def test_the_whole_life_on_a_modern_server(modern_upstream: Scripted, tmp_path: Path) -> None:
    table = tmp_path / "jobs.toml"
    table.write_text(TABLE, "utf-8")
    sections: dict[str, Any] = {
        "mappings": {"files": (table,)},
        "legacy": {"dialect": "jobs", "page_size": 1},
    }
    async with modern_corner(modern_upstream, tmp_path, session=False, **sections) as lm:
        task = {"task-1": asks("a"), "other": seen_as("other")}

        def answered(seen: Seen) -> Any:
            task[seen.params["taskId"]] = seen_as(status="completed", result=text("done"))
            return ACK

        modern_upstream.on("tasks/get", lambda seen: task[seen.params["taskId"]])
        modern_upstream.on("tasks/update", answered)
        modern_upstream.once(
            "tools/call", Error(-32050, "no"), made("other"), made("task-1", statusMessage="begun")
        )
        client = lm.client
        assert (await jobs(client, "start", name="run", arguments={}))["error"]["code"] == -32050
        await jobs(client, "start", name="run", arguments={})
        job = (await jobs(client, "start", name="run", arguments={}, keepMs=1))["result"]["job"]
        assert (set(job), job["state"], job["note"]) == (FIELDS | {"note"}, "queued", "begun")
        lm.clock.advance(1_001)
        shown = (await jobs(client, "state", "task-1"))["result"]
        assert (set(shown), shown["state"], set(shown["open"])) == (FIELDS | {"open"}, "asking", {"a"})
        assert (await jobs(client, "reply", "task-1", replies={"a": {"ok": True}}))["result"] == {}
        [update] = [await modern_upstream.wait("tasks/update")]
        assert update.params["inputResponses"] == {"a": {"action": "accept", "content": {"ok": True}}}
        done = await lm.ticking(asyncio.ensure_future(jobs(client, "outcome", "task-1")))
        assert done["result"] == text("done")
        assert (await jobs(client, "state", "task-1"))["result"]["state"] == "ready"
        first = (await jobs(client, "all"))["result"]
        second = (await jobs(client, "all", after=first["more"]))["result"]
        assert [one["jobId"] for one in first["jobs"] + second["jobs"]] == ["task-1", "other"]
        assert (await jobs(client, "stop", "other"))["result"]["state"] == "stopped"
        assert not modern_upstream.unexpected


# -- other clients on a server of the own dialect ------------------------------------------------


@pytest.fixture(params=[True, False], ids=["sessions", "no sessions"])
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[App]:
    server = JobServer(sessions=request.param, poll_interval_ms=20)
    async with in_front(server, tmp_path) as shim:
        yield shim


@pytest.mark.rule("CS-TABLE")
async def test_a_modern_client_on_a_job_server(app: App) -> None:
    async with ModernClient(app.url, headers=ALICE) as client:
        made_task = (await client.call("deploy", {"seconds": 0})).result
        assert (made_task["resultType"], made_task["status"]) == ("task", "working")
        task_id = made_task["taskId"]
        shown = await until(client, task_id, "input_required")
        await client.tasks("update", task_id, inputResponses=dict.fromkeys(shown["inputRequests"], YES))
        shown = await until(client, task_id, "completed")
        assert shown["result"]["structuredContent"] == {"deployed": True}
        other = (await client.call("resize_images", {"seconds": 60})).result["taskId"]
        assert (await client.tasks("cancel", other)).result == {"resultType": "complete"}
        assert (await client.tasks("get", other)).result["status"] == "cancelled"


@pytest.mark.rule("CS-TABLE", "LL-1")
@pytest.mark.parametrize("opens", [True, False])
async def test_a_four_state_client_on_a_job_server(app: App, *, opens: bool) -> None:
    async with LegacyClient(app.url, headers=ALICE) as client:
        if opens:
            await client.initialize()
        call = {"name": "resize_images", "arguments": {"seconds": 0}}
        task_id = (await client.request("tasks/create", call)).result["taskId"]
        while (shown := (await client.tasks("status", task_id)).result)["status"] != "done":
            assert set(shown) - {"statusMessage"} == {"taskId", "status", "createdAt", "ttl", "pollInterval"}
            await asyncio.sleep(0.02)  # the pace the server asked for
        assert (await client.tasks("result", task_id)).result["structuredContent"] == {"resized": 4}


@pytest.mark.rule("CS-TABLE", "LL-1")
async def test_an_experimental_client_on_a_job_server(tmp_path: Path) -> None:
    async with (
        in_front(JobServer(sessions=True, poll_interval_ms=20), tmp_path) as app,
        LegacyClient(app.url, headers=ALICE) as client,
    ):
        await client.initialize()
        task_id = (await client.call("deploy", {"seconds": 0}, task={})).result["task"]["taskId"]
        async with client.stream("tasks/result", {"taskId": task_id}) as stream:
            asked = await stream.message()
            await client.respond(asked["id"], YES)
            assert (await stream.message())["result"]["structuredContent"] == {"deployed": True}
        [listed] = (await client.request("tasks/list")).result["tasks"]
        assert (listed["taskId"], listed["status"]) == (task_id, "completed")
