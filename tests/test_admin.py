"""The admin address, request by request."""

import asyncio
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from shim.admin import Admin
from shim.config import Config

TOKEN = "a-long-admin-token"
BODY = b'{"default": "new", "by": "ann"}'


class Steering:
    def __init__(self):
        self.wanted = None
        self.by = ""

    def change(self, wanted, by):
        self.wanted, self.by = wanted, by

    async def status(self):
        return {}


@pytest.fixture
def steering():
    return Steering()


@pytest.fixture
def admin(steering):
    config = Config.model_validate({"admin": {"token": TOKEN}})
    return Admin(config, Mock(), Mock(), {}, steering)


def change(size: int = 2**20):
    """Give a request to change the cutover, and its body, of which nothing has come yet."""
    loop = asyncio.get_running_loop()
    protocol = BaseProtocol(loop, Mock())
    protocol.transport = Mock()
    body = StreamReader(protocol, 2**16, loop=loop)
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "127.0.0.1:8766"}
    return make_mocked_request(
        "POST", "/cutover", headers=headers, payload=body, client_max_size=size
    ), body  # fmt: skip


async def test_a_change_may_come_in_pieces(admin, steering):
    http, body = change()
    answering = asyncio.create_task(admin.handle(http))
    body.feed_data(BODY[:7])
    for _ in range(10):
        await asyncio.sleep(0)
    assert not answering.done()
    body.feed_data(BODY[7:])
    body.feed_eof()
    assert (await answering).status == 200
    assert steering.wanted == {"default": "new", "by": "ann"}
    assert steering.by.startswith("ann from ")


async def test_a_change_has_a_size(admin, steering):
    http, body = change(len(BODY) - 1)
    body.feed_data(BODY)
    body.feed_eof()
    with pytest.raises(web.HTTPRequestEntityTooLarge):  # which the server answers
        await admin.handle(http)
    assert steering.wanted is None
