"""The way to an identity provider: bounded in time and size, never elsewhere than configured.

Redirects are not followed, no cookies kept, no proxy taken from the environment, nothing decompressed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import aiohttp
import structlog

from shim.audit.events import AuditSink, ProviderDown, ProviderUp
from shim.clock import Clock

log = structlog.get_logger("shim.callers")

JWKS, INTROSPECTION = "jwks", "introspection"
"""What is asked for, as metrics and events name it."""

_CONNECTIONS = 100
_OK = 200
_REDIRECTS = range(300, 400)
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "taskshim"}

R = TypeVar("R")

OnRequest = Callable[[str, str], None]
"""Hears of the end of each request: source, outcome (ok, failed)."""


class NoAnswer(Exception):
    """The provider gave no answer that can be used; the message says why, in a few words."""


class Providers:
    """What all sources that ask a provider share, also over a reload: the HTTP client, the time."""

    def __init__(self, clock: Clock, sink: AuditSink, on_request: OnRequest) -> None:
        self.clock = clock
        self._sink = sink
        self._on_request = on_request
        self._client: aiohttp.ClientSession | None = None
        self._down: set[str] = set()
        self.kept: dict[str, Any] = {}
        """What a source wants its successor to go on with, by the address it came from."""
        self._work: set[asyncio.Task[Any]] = set()

    async def ask(
        self, source: str, url: str, *, timeout_ms: int, at_most: int,
        form: Mapping[str, str] | None = None, headers: Iterable[tuple[str, str]] = (),
    ) -> bytes:  # fmt: skip
        """Give the body of a 200 to a GET, or to a POST of a form. Raises NoAnswer."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                body = await self._exchange(url, form, {**_HEADERS, **dict(headers)}, at_most)
        except TimeoutError:
            raise self.failed(source, "no answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            raise self.failed(source, type(exc).__name__) from None
        except NoAnswer as exc:
            raise self.failed(source, str(exc)) from None
        return body

    def failed(self, source: str, evidence: str) -> NoAnswer:
        """Count a request that came to nothing and give what is to be raised."""
        self._on_request(source, "failed")
        if source not in self._down:
            self._down.add(source)
            log.warning(
                "the identity provider gives no answer that can be used", source=source, evidence=evidence
            )
            self._sink.emit(ProviderDown(source=source, evidence=evidence))
        return NoAnswer(evidence)

    def answered(self, source: str) -> None:
        """Count a request whose answer could be used."""
        self._on_request(source, "ok")
        if source in self._down:
            self._down.discard(source)
            log.info("the identity provider answers again", source=source)
            self._sink.emit(ProviderUp(source=source))

    def start(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Run work that outlives the request it is begun for."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def close(self) -> None:
        """End what is under way."""
        for task in tuple(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    async def _exchange(
        self, url: str, form: Mapping[str, str] | None, headers: Mapping[str, str], at_most: int
    ) -> bytes:
        if self._client is None:
            self._client = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ttl_dns_cache=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
            )
        method = "GET" if form is None else "POST"
        async with self._client.request(
            method, url, data=form, headers=headers, allow_redirects=False
        ) as response:
            if response.status in _REDIRECTS:
                raise NoAnswer(f"HTTP {response.status}: redirects are not followed, name the final address")
            if response.status != _OK:
                raise NoAnswer(f"HTTP {response.status}")
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > at_most:
                    response.close()
                    raise NoAnswer(f"more than answer_bytes = {at_most}")
            return bytes(body)
