"""A session's stream whose client comes back and leaves in the same moment."""

import asyncio
from unittest.mock import Mock

import pytest

from shim.config import Config
from shim.fronts.hosted.feed import Feed, _Channel
from shim.fronts.hosted.streams import Open


@pytest.mark.rule("LM-RESUME")
async def test_a_client_that_leaves_while_it_is_taken_back_leaves_the_stream_as_it_was(monkeypatch):
    feed = Feed(Config(), *[Mock() for _ in range(5)])
    ending = asyncio.Event()

    async def without_client():
        try:
            await asyncio.Event().wait()
        finally:
            await ending.wait()

    away = asyncio.create_task(without_client())
    await asyncio.sleep(0)
    session = Mock(session_id="s")
    channel = feed._channels["s"] = _Channel(session, Open(Mock()), Mock(), Mock(), Mock(), away)
    left = []
    monkeypatch.setattr(feed, "_leave", left.append)
    back = asyncio.create_task(feed._channel(Mock(), session, Mock(), channel.stream, "1-1"))
    for _ in range(3):
        await asyncio.sleep(0)
    back.cancel()
    await asyncio.wait([back])
    assert left == [channel]
    ending.set()
    await asyncio.wait([away])
