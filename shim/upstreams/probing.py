"""Finding out which era a server speaks (ERA-PROBE): discover first, initialize to be sure of legacy."""

from collections.abc import Sequence
from dataclasses import dataclass

from shim.audit.events import AuditSink
from shim.audit.trace import Trace
from shim.hub import rawjson
from shim.hub.rawjson import Members, RawJsonError
from shim.upstreams.http import Link, media_type
from shim.wire.envelope import META_CLIENT_CAPABILITIES, META_CLIENT_INFO, initialize_params
from shim.wire.era import LEGACY_VERSIONS, META_VERSION, MODERN_VERSIONS, Era
from shim.wire.errors import UpstreamFault
from shim.wire.http import ACCEPT, JSON_TYPE, MCP_METHOD, PROTOCOL_VERSION, SSE_TYPE, is_success
from shim.wire.jsonrpc import Response, read_upstream, write_request
from shim.wire.methods import DISCOVER
from shim.wire.probe import Verdict, classify_discover, of_status

_ID = b'"taskshim-probe"'


@dataclass(frozen=True, slots=True)
class Probed:
    """What a server was found to be."""

    verdict: Verdict
    init: Members
    """Its initialize result, or its discover result where it is modern; {} where it gave none."""
    legacy_too: Members | None = None
    """The initialize result of a modern server that answers one as well."""

    @property
    def era(self) -> Era | None:
        """The server's era; None where nothing is proved."""
        return self.verdict.era


async def probe(link: Link, sink: AuditSink, name: str, headers: Sequence[tuple[str, str]] = ()) -> Probed:
    """Ask a server what it speaks. Never raises; an answer that proves nothing says so.

    `headers` go with each request: the fixed ones and the service's own credential.
    """
    probed = await _ask(link, headers)
    era = probed.era.value if probed.era else "inconclusive"
    Trace.background(sink, upstream=name).event(
        "upstream.probed", verdict=era, evidence=probed.verdict.evidence
    )
    return probed


async def _ask(link: Link, signed: Sequence[tuple[str, str]]) -> Probed:
    version = MODERN_VERSIONS[0]
    meta = {
        META_VERSION: version,
        META_CLIENT_INFO: {"name": "taskshim", "version": "1"},
        META_CLIENT_CAPABILITIES: {},
    }
    body = write_request(_ID, DISCOVER, {"_meta": rawjson.encode(meta)})
    headers = [*signed, (PROTOCOL_VERSION, version), (MCP_METHOD, DISCOVER)]
    try:
        status, answer = await _post(link, body, headers)
    except UpstreamFault as exc:
        return Probed(Verdict(None, exc.message), {})
    verdict = classify_discover(status, answer)
    if verdict.era is None:
        return Probed(verdict, {})
    init = await _initialize(link, signed)
    if verdict.era is Era.MODERN:
        return Probed(verdict, _result_of(answer), None if isinstance(init, str) else init)
    # a legacy verdict is believed only once initialize has succeeded
    if isinstance(init, str):
        return Probed(Verdict(None, f"{verdict.evidence}; initialize: {init}"), {})
    return Probed(verdict, init)


async def _initialize(link: Link, signed: Sequence[tuple[str, str]]) -> Members | str:
    """Give the server's initialize result, or why there is none."""
    params = initialize_params("taskshim", "1", {}, LEGACY_VERSIONS[0])
    try:
        status, answer = await _post(link, write_request(_ID, "initialize", params), signed)
        if not is_success(status):
            return of_status(status)
        message = read_upstream(answer)
        if not isinstance(message, Response) or message.result is None:
            return f"HTTP {status}, refused"
        return rawjson.members(message.result)
    except UpstreamFault as exc:
        return exc.message
    except RawJsonError as exc:
        return str(exc)


def _result_of(answer: bytes) -> Members:
    try:
        message = read_upstream(answer)
        result = message.result if isinstance(message, Response) else None
        return rawjson.members(result) if result is not None else {}
    except (UpstreamFault, RawJsonError):
        return {}


async def _post(link: Link, body: bytes, headers: Sequence[tuple[str, str]]) -> tuple[int, bytes]:
    sent = [("Accept", ACCEPT), ("Content-Type", JSON_TYPE), *headers]
    async with link.in_time(patient=False), await link.send("POST", sent, body) as response:
        if media_type(response.headers) == SSE_TYPE:
            async for frame in link.frames(response):
                if frame.data:
                    return response.status, frame.data
            return response.status, b""
        return response.status, await link.read(response)
