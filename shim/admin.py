"""The admin address: health, readiness, metrics, what the shim knows of its upstreams."""

from collections.abc import Mapping
from hmac import compare_digest

from aiohttp import web
from pydantic import ValidationError

from shim.audit.metrics import Metrics
from shim.config import Config
from shim.config.address import is_loopback
from shim.fronts.guard import names_this
from shim.hub import rawjson
from shim.ledger.protocol import Ledger
from shim.standing import Stand
from shim.steering import Steering
from shim.upstreams.prober import Verdict

_BY_CHARS = 200


class Admin:
    """Answers on the admin address."""

    def __init__(
        self, config: Config, metrics: Metrics, ledger: Ledger, stands: Mapping[str, Stand],
        steering: Steering,
    ) -> None:  # fmt: skip
        self.ready = False
        self._config = config
        self._steering = steering
        self._metrics = metrics
        self._ledger = ledger
        self._stands = stands

    def stopping(self) -> None:
        """Say from now on that no new work should be sent here."""
        self.ready = False

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one admin request, but of no page that came here under a name of its own (ORIGIN)."""
        hosts = [one.lower() for one in self._config.listen.allowed_hosts]
        if is_loopback(self._config.admin.host) and not names_this(http, hosts):
            return web.Response(status=403, text="Host: not allowed here; allow it in listen.allowed_hosts\n")
        if http.path == "/cutover" and http.method == "POST":
            return await self._change(http)
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
            case "/cutover":
                return _json(await self._steering.status())
        return web.Response(status=404, text="served here: /healthz /readyz /metrics /upstreams /cutover\n")

    async def _change(self, http: web.BaseRequest) -> web.Response:
        """Change where new calls go: `default`, `rules`, `drain`, as JSON."""
        token = self._config.admin.token
        given = http.headers.get("Authorization", "").removeprefix("Bearer ")
        if token is None or not compare_digest(_bytes(given), _bytes(token.get_secret_value())):
            return web.Response(status=403, text="needs the bearer token of [admin] token\n")
        try:
            wanted = rawjson.decode(await http.read())  # aiohttp bounds it: 1 MiB, or a 413
            if not isinstance(wanted, dict):
                return web.Response(status=400, text="expected an object\n")
            by = f"{str(wanted.get('by', 'somebody'))[:_BY_CHARS]} from {http.remote}"
            self._steering.change(wanted, by=by)
        except ValueError as exc:  # of JSON, or of a rule
            return web.Response(status=400, text=f"{_first_line(exc)}\n")
        return _json(await self._steering.status())

    async def _metrics_text(self) -> web.Response:
        stats = await self._ledger.stats()
        self._metrics.tasks.clear()
        for upstream, by_status in stats.tasks.items():
            for status, count in by_status.items():
                self._metrics.tasks.labels(upstream, status).set(count)
        for stand in self._stands.values():
            self._metrics.up.labels(stand.name).set(stand.up)
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
                "health": stand.health.told(),
                "sessions": stand.behind.open_sessions if speaker.has_sessions else 0,
                "tasks": stats.tasks.get(speaker.name, {}),
                "oldest_open_ms": stats.oldest_open_ms,
            }
            for stand in self._stands.values()
            for speaker in stand.behind.speakers.values()
        ]
        return _json({"upstreams": report})


def _told(verdict: Verdict | None) -> dict[str, object] | None:
    if verdict is None:
        return None
    return {"era": verdict.era.value, "evidence": verdict.evidence, "at_ms": verdict.at_ms}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # a header may hold bytes that are no UTF-8


def _json(body: object) -> web.Response:
    return web.Response(body=rawjson.encode(body) + b"\n", content_type="application/json")


def _first_line(exc: ValueError) -> str:
    if isinstance(exc, ValidationError):
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}".removeprefix(": ").replace("Value error, ", "")
    return str(exc)
