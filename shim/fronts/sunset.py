"""The end of the old API: what tells its clients, and what becomes of their requests after it (SUNSET).

The headers are those of RFC 9745 (Deprecation) and RFC 8594 (Sunset), with their link relations.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from typing import Any

import structlog

from shim.audit.trace import Trace
from shim.clock import Clock
from shim.config import Config
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.wire.era import MODERN_VERSIONS
from shim.wire.errors import INVALID_PARAMS, INVALID_REQUEST, ClientFault
from shim.wire.http import OK
from shim.wire.jsonrpc import Message, Request

log = structlog.get_logger("shim")

_REMEMBERED = 1_000


class Sunset:
    """What a legacy request is told of the end of its API, and whether it is still served."""

    def __init__(self, config: Config, dialects: Mapping[str, Dialect], clock: Clock) -> None:
        cutover = config.cutover
        self.headers = tuple(_headers(cutover.deprecation, cutover.sunset, cutover.link))
        """The headers of a successful answer."""
        self._day = cutover.sunset
        self._ends_ms = None if cutover.sunset is None else int(_begin(cutover.sunset).timestamp() * 1000)
        self._after = cutover.after_sunset
        self._link = cutover.link
        self._clock = clock
        self._goes_on = frozenset(_of_tasks(dialects.values())) | {"ping"}
        self._told: set[str] = set()

    def judge(self, message: Message | None, trace: Trace) -> None:
        """Note a request that comes after the end. Raises ClientFault where it is not served any more."""
        if self._ends_ms is None or self._clock.now_ms() < self._ends_ms:
            return
        trace.sunset = "served"
        if self._after == "refuse" and isinstance(message, Request) and message.method not in self._goes_on:
            trace.sunset = "refused"
            trace.event("sunset", action="refused", method=message.method)
            raise self._refusal(message)
        if self._after == "warn":
            trace.sunset = "warned"
            method = message.method if isinstance(message, Request) else None
            trace.event("sunset", action="warned", method=method)
            self._warn(trace)

    def _refusal(self, message: Request) -> ClientFault:
        """Say that the API is over: to an initialize as a version that is not served, else plainly.

        Both go with status 200: clients of that era take an error for an answer only there.
        """
        said: dict[str, Any] = {"sunset": str(self._day), "supported": MODERN_VERSIONS}
        if self._link is not None:
            said["link"] = self._link
        where = f"; see {self._link}" if self._link is not None else ""
        if message.method == "initialize":
            said["requested"] = rawjson.string(message.params.get("protocolVersion"))
            code, text = INVALID_PARAMS, f"Unsupported protocol version: this API ended on {self._day}{where}"
        else:
            code, text = INVALID_REQUEST, f"this API ended on {self._day}: take {MODERN_VERSIONS[0]}{where}"
        headers = tuple(one for one in self.headers if one[0] != "Deprecation")
        return ClientFault(code, text, OK, data=rawjson.encode(said), headers=headers, reason="sunset")

    def _warn(self, trace: Trace) -> None:
        """Say each caller in the operator's log once."""
        caller = trace.caller_label or trace.caller or ""
        if caller not in self._told and len(self._told) < _REMEMBERED:
            self._told.add(caller)
            log.warning("a client uses the old API after its end", caller=caller, sunset=str(self._day))


def _of_tasks(dialects: Iterable[Dialect]) -> Iterable[str]:
    """Give the methods that are about tasks there are: what was begun before can be finished."""
    for dialect in dialects:
        if dialect.era == "legacy":
            yield from dialect.methods.names() - {dialect.methods.create}


def _headers(deprecated: date, ends: date | None, link: str | None) -> Iterable[tuple[str, str]]:
    yield "Deprecation", f"@{int(_begin(deprecated).timestamp())}"
    if ends is not None:
        yield "Sunset", format_datetime(_begin(ends), usegmt=True)
    if link is not None:
        yield "Link", f'<{link}>; rel="{"deprecation" if ends is None else "deprecation sunset"}"'


def _begin(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
