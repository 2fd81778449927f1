"""Why there is no connection, or no answer on it: named, with what to look at, and without the address."""

import errno
import os
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from structlog.testing import capture_logs
from yarl import URL

from shim.app import running
from shim.upstreams.broken import NeverSent
from shim.upstreams.http import Limits, Link
from tests.client import ModernClient
from tests.corners.ml import ALICE
from tests.scripted import Broken, Scripted
from tests.shim import config_for

pytestmark = pytest.mark.rule("ERRORS")
KEY = ConnectionKey(
    "hidden.example.org", 443, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None
)


def verification(message: str) -> ssl.SSLCertVerificationError:
    fault = ssl.SSLCertVerificationError(1, message)
    fault.verify_message = message
    return fault


class _Failing:
    """A client that gets no connection."""

    address = URL("https://hidden.example.org/mcp")

    def __init__(self, fault: Exception) -> None:
        self._fault = fault

    async def request(self, *_: Any, **__: Any) -> None:
        raise self._fault


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (
            aiohttp.ClientConnectorCertificateError(KEY, verification("self-signed certificate")),
            "its certificate does not hold: self-signed certificate (trusted ones: SSL_CERT_FILE)",
        ),
        (
            aiohttp.ClientConnectorCertificateError(
                KEY, verification("Hostname mismatch, certificate is not valid for 'hidden.example.org'.")
            ),
            "its certificate does not hold: Hostname mismatch (trusted ones: SSL_CERT_FILE)",
        ),
        (
            aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]")),
            "it does not speak TLS there, or not as it must; look at the scheme and port of its URL",
        ),
        (
            aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "Name or service not known")),
            "its name cannot be resolved",
        ),
        (
            aiohttp.ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "no")),
            os.strerror(errno.ECONNREFUSED),
        ),
        (aiohttp.ConnectionTimeoutError(), "no connection within connect_timeout_ms"),
    ],
)
async def test_it_says_why(fault: Exception, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    heard: list[tuple[bool, str]] = []
    link = Link(_Failing(fault), Limits())  # type: ignore[arg-type]
    link.on_change = lambda up, evidence: heard.append((up, evidence))
    with pytest.raises(NeverSent) as caught:
        await link.send("POST", (), b"{}")
    assert caught.value.message == f"the upstream cannot be reached: {why}"
    assert "hidden" not in caught.value.message
    assert heard == [(False, why)]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_a_want_of_descriptors_says_nothing_of_the_server(number: int) -> None:
    fault = aiohttp.ClientConnectorError(KEY, OSError(number, "no"))
    link = Link(_Failing(fault), Limits())  # type: ignore[arg-type]
    link.on_change = lambda *_: pytest.fail("the server is as it was")
    with pytest.raises(NeverSent) as caught:
        await link.send("POST", (), b"{}")
    assert (caught.value.http_status, caught.value.message) == (
        503,
        "the shim has too many open files to ask the upstream",
    )


async def test_https_at_a_port_of_http(tmp_path: Path, upstream: Scripted) -> None:
    url = upstream.url.replace("http:", "https:")
    config = config_for(url, tmp_path, upstream={"dialect": "experimental"})
    with capture_logs() as logs:
        async with running(config) as app, ModernClient(app.url, headers=ALICE) as client:
            reply = await client.call("run")
    assert "it does not speak TLS there" in reply.error["message"]
    assert [one["evidence"] for one in logs if one["event"] == "the upstream cannot be reached"] == [
        "it does not speak TLS there, or not as it must; look at the scheme and port of its URL"
    ]


async def test_a_server_that_hangs_up_is_named_without_a_word_of_the_library(
    tmp_path: Path, upstream: Scripted
) -> None:
    upstream.on("initialize", Broken())
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})
    async with running(config) as app, ModernClient(app.url, headers=ALICE) as client:
        reply = await client.call("run")
    assert reply.error["message"] == (
        "the upstream's answer broke off: it closed the connection without an answer"
    )


async def test_a_file_of_trusted_certificates_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    fault = aiohttp.ClientConnectorCertificateError(KEY, verification("self-signed certificate"))
    link = Link(_Failing(fault), Limits())  # type: ignore[arg-type]
    with pytest.raises(NeverSent, match=r"\(trusted ones: SSL_CERT_FILE, which names no file\)"):
        await link.send("POST", (), b"{}")
