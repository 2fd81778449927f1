"""The admin address: health, readiness, metrics, what the shim knows of its upstreams."""

from collections.abc import Mapping

from aiohttp import web

from shim.audit.metrics import Metrics
from shim.hub import rawjson
from shim.ledger.protocol import Ledger
from shim.standing import Stand
from shim.upstreams.prober import Verdict


class Admin:
    """Answers on the admin address."""

    def __init__(self, metrics: Metrics, ledger: Ledger, stands: Mapping[str, Stand]) -> None:
        self.ready = False
        self._metrics = metrics
        self._ledger = ledger
        self._stands = stands

    def stopping(self) -> None:
        """Say from now on that no new work should be sent here."""
        self.ready = False

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one admin request."""
        if http.method not in {"GET", "HEAD"}:
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        match http.path:
            case "/healthz":
                return web.Response(text="ok\n")
            case "/readyz":
                return (
                    web.Response(text="ready\n")
                    if self.ready
                    else web.Response(status=503, text="stopping\n")
                )
            case "/metrics":
                return await self._metrics_text()
            case "/upstreams":
                return await self._upstreams()
        return web.Response(status=404, text="served here: /healthz /readyz /metrics /upstreams\n")

    async def _metrics_text(self) -> web.Response:
        stats = await self._ledger.stats()
        self._metrics.tasks.clear()
        for upstream, by_status in stats.tasks.items():
            for status, count in by_status.items():
                self._metrics.tasks.labels(upstream, status).set(count)
        for stand in self._stands.values():
            self._metrics.sessions.labels(stand.name).set(stand.behind.open_sessions)
        return web.Response(
            body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def _upstreams(self) -> web.Response:
        stats = await self._ledger.stats()
        report = [
            {
                "name": speaker.name,
                "era": speaker.dialect.era,
                "dialect": speaker.dialect.name,
                "verdict": _told(stand.prober.verdict),
                "sessions": stand.behind.open_sessions if speaker.has_sessions else 0,
                "tasks": stats.tasks.get(speaker.name, {}),
                "oldest_open_ms": stats.oldest_open_ms,
            }
            for stand in self._stands.values()
            for speaker in stand.behind.speakers.values()
        ]
        return web.Response(
            body=rawjson.encode({"upstreams": report}) + b"\n", content_type="application/json"
        )


def _told(verdict: Verdict | None) -> dict[str, object] | None:
    if verdict is None:
        return None
    return {"era": verdict.era.value, "evidence": verdict.evidence, "at_ms": verdict.at_ms}
