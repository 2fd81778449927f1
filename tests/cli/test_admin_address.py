"""Where commands look for a running shim, and how they ask it."""

import pytest

from shim.cli.admin_address import asked, url_of
from shim.config.operations import Admin


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("::1", "[::1]"),
        ("shim.internal", "shim.internal"),
    ],
)
def test_the_address_is_one_that_can_be_reached(host, reached):
    assert url_of(Admin(host=host, port=1234)) == f"http://{reached}:1234"


def test_no_proxy_of_the_environment_gets_the_request(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://proxy.invalid:1")
    with pytest.raises(OSError, match="refused"):
        asked("http://127.0.0.1:9/readyz", 5)
