"""Log messages of a server reach who asked for them, at the level they asked for, and nobody else."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.corners.lm import corner as lm_corner
from tests.corners.ml import about, corner
from tests.scripted import EXPERIMENTAL, Error, Stream, scripted, task, text

pytestmark = pytest.mark.rule("ML-LOGGING")

LEVEL = "io.modelcontextprotocol/logLevel"
LOGS = {**EXPERIMENTAL, "logging": {}}
SEVERITIES = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def log(level: Any, data: Any = "x", **params: Any) -> dict[str, Any]:
    said = {"level": level, "logger": "l", "data": data, **params}
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": said}


def levels(messages: list[Any]) -> list[str]:
    return [one["params"]["level"] for one in messages if one.get("method") == "notifications/message"]


async def logged(call: Stream, *said: dict[str, Any]) -> None:
    """Let the server log on a call's stream, then answer."""
    for message in said:
        await call.send(message)
    await call.result(text("ok"))


@pytest.mark.parametrize("asked", SEVERITIES)
async def test_what_is_at_or_above_the_level_passes(tmp_path: Path, asked: str) -> None:
    async with scripted(capabilities=LOGS) as upstream, corner(upstream, tmp_path) as ml:
        upstream.on("logging/setLevel", {})
        call = upstream.stream("tools/call")
        calling = asyncio.create_task(ml.client.call("plain", meta={LEVEL: asked}))
        await logged(call, *map(log, SEVERITIES), log("loud"), log(3))
        reply = await calling
        assert levels(reply.messages) == list(SEVERITIES[SEVERITIES.index(asked) :])
        assert reply.messages[0] == log(asked)
        [told] = upstream.seen("logging/setLevel")
        assert (told.params, told.session) == ({"level": asked}, (await call.opened()).session)


async def test_who_did_not_ask_gets_none(tmp_path: Path) -> None:
    async with scripted(capabilities=LOGS) as upstream, corner(upstream, tmp_path) as ml:
        call = upstream.stream("tools/call")
        calling = asyncio.create_task(ml.client.call("plain"))
        await logged(call, log("emergency"))
        assert len((await calling).messages) == 1
        assert upstream.seen("logging/setLevel") == []


async def test_the_level_is_said_once_for_a_session(tmp_path: Path) -> None:
    async with scripted(capabilities=LOGS) as upstream, corner(upstream, tmp_path) as ml:
        upstream.on("logging/setLevel", Error(-32602))
        upstream.on("tools/call", text("ok"))
        for level in ("info", "info", "error", None, "error"):
            reply = await ml.client.call("plain", meta={LEVEL: level} if level else {})
            assert reply.result["content"] == text("ok")["content"]
        assert [seen.params["level"] for seen in upstream.seen("logging/setLevel")] == ["info", "error"]


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
async def test_what_comes_on_the_sessions_stream_is_the_one_calls(tmp_path: Path, method: str) -> None:
    async with (
        scripted(capabilities=LOGS) as upstream,
        corner(upstream, tmp_path, client={"capabilities": {}}) as ml,
    ):
        upstream.on("logging/setLevel", {})
        call, params = upstream.stream(method), {"name": "plain", "uri": "file:///a"}

        async def says() -> Stream:
            get = await upstream.get_stream()
            assert (await get.opened()).session == (await call.opened()).session
            await get.send(log("debug"))
            await get.send(log("error"))
            return get

        async with asyncio.TaskGroup() as group:
            saying = group.create_task(says())
            async with ml.client.stream(method, params, meta={LEVEL: "info"}) as answer:
                assert await answer.message() == log("error")
                quiet = upstream.stream(method)
                other = group.create_task(ml.client.request(method, params))
                assert (await quiet.opened()).session != (await call.opened()).session
                await (await saying).send(log("alert"))
                assert await answer.message() == log("alert")
                await quiet.result(text("ok"))
                await call.result(text("ok"))
                assert levels(await answer.rest()) == []
        assert levels(other.result().messages) == []


async def test_of_a_task_nothing_is_logged(tmp_path: Path) -> None:
    async with scripted(capabilities=LOGS) as upstream, corner(upstream, tmp_path) as ml:
        upstream.on("logging/setLevel", {})
        create = upstream.stream("tools/call")
        calling = asyncio.create_task(ml.client.call("run", meta={LEVEL: "debug"}))
        await create.send(log("info", **about("task-1")))
        await create.send(log("info", "before"))
        await create.result({"task": task()})
        first, handle = (await calling).messages
        assert (first, handle["result"]["resultType"]) == (log("info", "before"), "task")


async def test_a_server_that_cannot_log_is_not_asked_to(tmp_path: Path) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path) as ml:
        upstream.on("tools/call", text("ok"))
        await ml.client.call("plain", meta={LEVEL: "debug"})
        assert upstream.seen("logging/setLevel") == []


@pytest.mark.parametrize("level", ["loud", 7, None])
async def test_a_level_that_is_none_is_refused(tmp_path: Path, level: Any) -> None:
    async with scripted(capabilities=LOGS) as upstream, corner(upstream, tmp_path) as ml:
        reply = await ml.client.call("plain", meta={LEVEL: level})
        assert (reply.status, reply.error["code"]) == (400, -32602)
        assert upstream.seen("tools/call") == []


@pytest.mark.rule("KEYS")
async def test_progress_names_no_task_of_the_old_era(tmp_path: Path) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path) as ml:
        call = upstream.stream("tools/call")
        calling = asyncio.create_task(ml.client.call("plain", meta={"progressToken": 7}))
        token = (await call.opened()).params["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 0.5, "total": 1}
        for meta in (about("t")["_meta"], {**about("t")["_meta"], "x": 1}):
            said = {**params, "_meta": meta}
            await call.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": said})
        await call.result(text("ok"))
        told = [one["params"] for one in (await calling).messages[:-1]]
        own = {**params, "progressToken": 7}
        assert told == [own, {**own, "_meta": {"x": 1}}]


@pytest.mark.rule("LM-META")
@pytest.mark.parametrize(("level", "heard"), [(None, []), ("warning", ["warning", "emergency"])])
async def test_an_old_client_hears_what_it_set(tmp_path: Path, level: str | None, heard: list[str]) -> None:
    async with scripted(sessions=False) as upstream, lm_corner(upstream, tmp_path) as lm:
        if level is not None:
            assert (await lm.client.request("logging/setLevel", {"level": level})).result == {}
        call = upstream.stream("tools/call")
        calling = asyncio.create_task(lm.client.call("run"))
        seen = await call.opened()
        assert seen.params["_meta"].get(LEVEL) == level
        await logged(call, log("info"), log("warning"), log("emergency"))
        assert levels((await calling).messages) == heard


@pytest.mark.rule("LM-LOCAL")
async def test_an_old_clients_level_that_is_none_is_refused(tmp_path: Path) -> None:
    async with scripted(sessions=False) as upstream, lm_corner(upstream, tmp_path) as lm:
        reply = await lm.client.request("logging/setLevel", {"level": "loud"})
        assert reply.error["code"] == -32602
