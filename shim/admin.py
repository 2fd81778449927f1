"""The admin address: health, readiness, metrics, what the shim knows of its upstreams."""

from aiohttp import web

from shim.audit.metrics import Metrics
from shim.behind import Behind
from shim.hub import rawjson
from shim.ledger.protocol import Ledger
from shim.upstreams.prober import Prober


class Admin:
    """Answers on the admin address."""

    def __init__(self, metrics: Metrics, ledger: Ledger, behind: Behind, prober: Prober) -> None:
        self.ready = False
        self._metrics = metrics
        self._ledger = ledger
        self._behind = behind
        self._prober = prober

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
        self._metrics.sessions.labels(self._behind.main.name).set(self._behind.open_sessions)
        return web.Response(
            body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def _upstreams(self) -> web.Response:
        stats, verdict = await self._ledger.stats(), self._prober.verdict
        told = None if verdict is None else {
            "era": verdict.era.value, "evidence": verdict.evidence, "at_ms": verdict.at_ms,
        }  # fmt: skip
        report = [
            {
                "name": speaker.name,
                "era": speaker.dialect.era,
                "dialect": speaker.dialect.name,
                "verdict": told,
                "sessions": self._behind.open_sessions if speaker.has_sessions else 0,
                "tasks": stats.tasks.get(speaker.name, {}),
                "oldest_open_ms": stats.oldest_open_ms,
            }
            for speaker in self._behind.speakers.values()
        ]
        return web.Response(
            body=rawjson.encode({"upstreams": report}) + b"\n", content_type="application/json"
        )
