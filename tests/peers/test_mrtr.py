"""A real legacy server that asks in the middle of a call, and a modern client on the wire (ML-MRTR)."""

from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import ModernClient
from tests.shim import config_for

pytestmark = [pytest.mark.peers, pytest.mark.rule("ML-MRTR")]

ALICE = {"Authorization": "Bearer alice"}
CALLS: list[tuple[str, dict[str, Any], Any]] = [
    ("resources/read", {"uri": "test://asks-first"}, "read by Ada"),
    ("prompts/get", {"name": "test_input_required_result_prompt"}, "Use this context: Ada"),
    ("tools/call", {"name": "test_input_required_result_elicitation", "arguments": {}}, "Hello, Ada!"),
]


@pytest.mark.parametrize(("method", "params", "said"), CALLS)
async def test_what_asks_first_is_answered_by_a_retry(
    legacy_url: str, tmp_path: Path, method: str, params: dict[str, Any], said: str
) -> None:
    async with (
        running(config_for(legacy_url, tmp_path)) as app,
        ModernClient(app.url, headers=ALICE) as client,
    ):
        asked = (await client.request(method, params)).result
        assert asked["resultType"] == "input_required"
        answer = {"action": "accept", "content": {"name": "Ada", "context": "Ada"}}
        more = {"inputResponses": {"elicitation-1": answer}, "requestState": asked["requestState"]}
        answers = [(await client.request(method, {**params, **more})).result for _ in range(2)]
    assert answers[0]["resultType"] == "complete"
    assert said in str(answers[0])
    assert answers[0] == answers[1]


async def test_a_call_goes_on_after_one_that_was_never_answered(legacy_url: str, tmp_path: Path) -> None:
    method, params, said = CALLS[2]
    limits = {"parked_ms": 50}
    async with (
        running(config_for(legacy_url, tmp_path, limits=limits)) as app,
        ModernClient(app.url, headers=ALICE) as client,
    ):
        asked = (await client.request(method, params)).result
        while len(app.tasks.parked):
            await client.request("tools/list")
        more = {"inputResponses": {}, "requestState": asked["requestState"]}
        assert (await client.request(method, {**params, **more})).error["code"] == -32602
        greeted = await client.request("tools/call", {"name": "greet", "arguments": {"name": "Ada"}})
        assert said in str(greeted.result)
