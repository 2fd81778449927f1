"""A server that is a command: one process for each session, ended with it; a crash is a lost session."""

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shim.app import running
from tests.client import LegacyClient, ModernClient
from tests.shim import config_for

SERVER = str(Path(__file__).parents[1] / "stdio_server.py")
ANN, BOB = {"X-Api-Key": "a"}, {"X-Api-Key": "b"}
CALLERS = {"sources": ["api_key"], "api_key": {"keys": {"ann": "a", "bob": "b"}}}


@asynccontextmanager
async def shim(folder, mode="legacy", upstream=None, **sections):
    command = [sys.executable, SERVER, mode]
    sections.setdefault("identity", CALLERS)
    config = config_for("", folder, upstream={"command": command, **(upstream or {})}, **sections)
    async with running(config) as app:
        yield app.url


def said(reply):
    return reply.result["content"][0]["text"]


@pytest.mark.parametrize("mode", ["legacy", "modern"])
@pytest.mark.parametrize("client", [LegacyClient, ModernClient])
async def test_two_callers_never_share_a_process(tmp_path, mode, client):
    async with (
        shim(tmp_path, mode) as url,
        client(url, headers=ANN) as ann,
        client(url, headers=BOB) as bob,
    ):
        for one in (ann, bob):
            if isinstance(one, LegacyClient):
                await one.initialize()
        assert said(await ann.call("pid")) != said(await bob.call("pid"))
