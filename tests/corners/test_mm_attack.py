"""MM under attack: frames that slip past, filters without end, an upstream's garbage."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.corners.mm import TASK, corner, handle, shown, until
from tests.scripted import Raw, Seen

OTHER = "5b0c2f7e-5f6c-4a52-9d56-2a5d3f7f0c99"


def event(message: Any, *, before: bytes) -> bytes:
    return before + json.dumps(message).encode() + b"\n\n"


@pytest.mark.rule("MM-1")
@pytest.mark.parametrize("before", [b"data:", b"data: ", b"data:  ", b"data:\t", b"id: 1\ndata: \r\ndata: "])
async def test_a_handle_is_written_down_however_its_frame_begins(tmp_path: Path, before: bytes) -> None:
    def streamed(seen: Seen) -> Raw:
        message = {"jsonrpc": "2.0", "id": seen.id, "result": handle()}
        return Raw(event(message, before=before), headers={"Content-Type": "text/event-stream"})

    async with corner(tmp_path) as mm:
        mm.upstream.once("tools/call", streamed)
        reply = await mm.client.call("run")
        assert b"taskId" in reply.body
        assert (await mm.row()).task_id == TASK


@pytest.mark.rule("MM-1", "OWN-CHECK")
@pytest.mark.parametrize("before", [b"data:  ", b"data:\t"])
async def test_a_foreign_push_is_kept_back_however_its_frame_begins(tmp_path: Path, before: bytes) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        stream = mm.upstream.stream("subscriptions/listen")
        wanted = {"notifications": {"taskIds": [TASK]}}
        async with mm.client.stream("subscriptions/listen", wanted) as heard:
            await stream.opened()
            for task_id in (OTHER, TASK):
                params = {key: value for key, value in shown(task_id).items() if key != "resultType"}
                push = {"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}
                await stream.write(event(push, before=before))
            await stream.close()
            said = await heard.rest()
    assert [message["params"]["taskId"] for message in said] == [TASK]


@pytest.mark.rule("MM-1")
async def test_a_filter_has_a_bound(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        wanted = {"notifications": {"taskIds": [f"task-{n}" for n in range(2_000)]}}
        reply = await mm.client.request("subscriptions/listen", wanted)
        assert mm.upstream.seen("subscriptions/listen") == []
    assert reply.error["code"] == -32602
    assert len(mm.events("denied")) < 10


@pytest.mark.rule("MM-1")
@pytest.mark.parametrize("body", [b"", b": hello\n\n", b'data: {"jsonrpc"'])
async def test_an_answer_that_never_comes_ends_with_its_client(tmp_path: Path, body: bytes) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        stream = mm.upstream.stream("tasks/get")
        asking = asyncio.create_task(mm.client.tasks("get", TASK))
        await stream.opened()
        await stream.write(body)
        asking.cancel()
        await until(mm.has_left)
        await stream.write(b": still there\n\n")
        await stream.left()
        mm.upstream.once("tasks/get", shown())
        assert (await mm.client.tasks("get", TASK)).result["status"] == "working"


@pytest.mark.rule("OWN-ID-MAP", "OWN-NONE")
@pytest.mark.parametrize("task_id", ["1", "task-1"])
async def test_a_guessable_id_is_never_shown_to_nobody(tmp_path: Path, task_id: str) -> None:
    async with corner(tmp_path, client={"headers": {}}) as mm:
        seen = await mm.create(task_id)
        reply = await mm.client.tasks("get", task_id)
    assert seen != task_id
    assert reply.error["code"] == -32602
