"""A call in the middle of which a legacy server asks, and its modern client."""

import asyncio
from typing import Any

from shim.tasks.parked_call import GATHER_MS
from tests.client import Reply
from tests.corners.ml import Corner, accept, elicit
from tests.scripted import Stream

PLAIN = {"name": "plain", "arguments": {"b": 1, "a": [1.5, "x"]}}


class Conversation:
    """One call, from its first request to its end."""

    def __init__(self, ml: Corner, method: str = "tools/call", params: Any = PLAIN) -> None:
        self.ml = ml
        self.method = method
        self.params = dict(params)
        self.stream: Stream = ml.upstream.stream(method)

    def start(self, **more: Any) -> "asyncio.Task[Reply]":
        """Send the request, or with `inputResponses` and `requestState` its retry."""
        return asyncio.create_task(self.ml.client.request(self.method, {**self.params, **more}))

    async def asked(self, sent: "asyncio.Task[Reply]", *questions: dict[str, Any], on: Any = None) -> Any:
        """Let the server ask, and give what the client gets."""
        for question in questions:
            await (on or self.stream).send(question)
        await self.ml.clock.slept(GATHER_MS)
        await self.heard()
        self.ml.clock.advance(GATHER_MS)
        result = (await sent).result
        assert result["resultType"] == "input_required"
        return result

    async def heard(self) -> None:
        """Wait until the shim has read all that was sent on the call's own stream."""
        upstream = self.ml.upstream
        name = f"heard-{len(upstream.requests)}"
        await self.stream.send({"jsonrpc": "2.0", "id": name, "method": "ping"})
        await upstream.response_to(name)

    async def parked(self) -> Any:
        """Begin, and let it ask one thing."""
        return await self.asked(self.start(), elicit("q"))

    def retry(self, asked: Any, **responses: Any) -> "asyncio.Task[Reply]":
        """Send the retry to what was asked; without any answer all get the same."""
        answers = responses or dict.fromkeys(asked["inputRequests"], accept(ok=True))
        return self.start(inputResponses=answers, requestState=asked["requestState"])
