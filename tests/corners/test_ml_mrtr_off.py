"""ML-MRTR: the server calls off what it asked in the middle of a call."""

from pathlib import Path
from typing import Any

import pytest

from shim.tasks.parked_call import GATHER_MS
from tests.corners.ml import accept, corner, elicit
from tests.corners.mrtr import Conversation
from tests.scripted import Scripted, text

pytestmark = pytest.mark.rule("ML-MRTR")


def off(request_id: Any) -> dict[str, Any]:
    """The server calls a question of its own off."""
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}


def sent_for(upstream: Scripted, request_id: Any) -> list[Any]:
    """The answers that the server got to a question."""
    return [seen for seen in upstream.requests if seen.is_response and seen.id == request_id]


async def test_a_question_that_is_called_off_before_it_is_shown_is_not_shown(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        sent = call.start()
        for message in (elicit("q"), off("q")):
            await call.stream.send(message)
        await ml.clock.slept(GATHER_MS)
        await call.heard()
        ml.clock.advance(GATHER_MS)
        await call.stream.result(text("done"))
        assert (await sent).result["content"] == text("done")["content"]
    assert [event["key"] for event in ml.events("input.withdrawn")] == ["elicitation-1"]


@pytest.mark.parametrize("on", ["call", "get"])
async def test_the_answer_to_a_question_that_was_called_off_is_one_to_nothing(
    upstream: Scripted, tmp_path: Path, on: str
) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.asked(call.start(), elicit("q"), elicit("r"))
        get = await upstream.get_stream()
        while get.session != call.stream.session:
            get = await upstream.get_stream()
        await (call.stream if on == "call" else get).send(off("q"))
        if on == "call":
            await call.heard()
        else:
            await get.send({"jsonrpc": "2.0", "id": "heard-on-get", "method": "ping"})
            await upstream.response_to("heard-on-get")
        retry = call.retry(first)
        assert (await upstream.response_to("r")).message["result"] == accept(ok=True)
        second = await call.asked(retry, elicit("s"))
        assert list(second["inputRequests"]) == ["elicitation-3"]
        await call.stream.send(off("s"))  # nothing is open any more: the retry waits for what comes
        await call.heard()
        retry = call.retry(second)
        await call.stream.result(text("without"))
        assert (await retry).result["content"] == text("without")["content"]
    assert sent_for(upstream, "q") == sent_for(upstream, "s") == []
    assert [event["key"] for event in ml.events("input.withdrawn")] == ["elicitation-1", "elicitation-3"]
    assert not ml.events("loss")
