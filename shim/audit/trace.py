"""One request's way through the shim, noted as it goes and written as one `request` event at its end.

Made once per request, so it costs little: no clock but the performance counter, no encoding.
"""

import itertools
import re
import secrets
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from shim.audit.events import (
    AuditSink,
    Client,
    Denied,
    Lenient,
    Loss,
    Outcome,
    RequestEnded,
    make,
)

_STATED_CHARS = 200
"""Bound of what a client states about itself or asks for: names are for people to read."""
_HTTP_ERROR, _HTTP_BUSY, _HTTP_FAULT = 400, 429, 500
_TOLD_BY_NOBODY = frozenset(("token", "session", "none"))
"""Kinds of callers that the request alone tells of: no list, no provider and no proxy knows them."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")

_prefix = secrets.token_hex(4)
_numbers = itertools.count(1)


class Trace:
    """What is known of one request so far; fields are set by whoever finds them out."""

    caller: str | None = None
    caller_kind: str | None = None
    caller_label: str | None = None
    client_name: str | None = None
    client_version: str | None = None
    era: str | None = None
    dialect: str | None = None
    upstream_era: str | None = None
    upstream_dialect: str | None = None
    corner: str | None = None
    method: str | None = None
    tool: str | None = None
    task_id: str | None = None
    upstream_calls: int = 0
    upstream_ms: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    outcome: Outcome | None = None
    refusal: str | None = None
    """Why it was denied, if it was."""
    fault: str | None = None
    """What was wrong with an upstream or the shim, if that is why it failed; nothing that a peer wrote."""
    code: int | None = None
    http_status: int | None = None
    sunset: str | None = None
    """What became of a request that came after the old API's end: served, warned, refused."""
    rerouted_for: str | None = None
    """Why it goes to another upstream than the rules name: down, tool."""
    _ended = False

    def __init__(
        self,
        sink: AuditSink,
        *,
        request_id: str | None = None,
        trace_id: str | None = None,
        upstream: str | None = None,
    ) -> None:
        self._sink = sink
        self._began = perf_counter()
        self.request_id = request_id or ""
        self.trace_id = trace_id
        self.upstream = upstream
        self.rules: set[str] = set()
        self.legacy_features: set[str] = set()

    @classmethod
    def incoming(cls, sink: AuditSink, headers: Mapping[str, str]) -> "Trace":
        """Begin the trace of a client's request; a sane `X-Request-Id` of its own is kept."""
        given = headers.get("X-Request-Id")
        if given is None or _REQUEST_ID.fullmatch(given) is None:
            given = f"{_prefix}-{next(_numbers):x}"
        parent = headers.get("traceparent")
        found = _TRACEPARENT.fullmatch(parent) if parent is not None else None
        return cls(sink, request_id=given, trace_id=found.group(1) if found else None)

    @classmethod
    def background(cls, sink: AuditSink, *, upstream: str | None = None) -> "Trace":
        """Begin the trace of the shim's own work, which no request asked for."""
        return cls(sink, upstream=upstream)

    @property
    def age_ms(self) -> float:
        """How long ago it began."""
        return (perf_counter() - self._began) * 1000

    @property
    def client(self) -> Client | None:
        """Name and version as the client states them, within bounds."""
        if self.client_name is None:
            return None
        return Client(name=_bounded(self.client_name), version=_bounded(self.client_version))

    @property
    def legacy(self) -> bool:
        """True if the request used anything that ends at sunset."""
        return self.era == "legacy" or bool(self.legacy_features)

    @property
    def unidentified(self) -> bool:
        """True if it was turned away before anything told who calls: nobody was served by it.

        That is a request that came to no caller, and one by the old API that HTTP refuses (4xx, but not for
        being one too many) while neither a source of identities nor a session of its own tells its caller.
        """
        if self.outcome == "ok":
            return False
        if self.caller_kind is None:
            return True
        return (
            self.era == "legacy"
            and self.caller_kind in _TOLD_BY_NOBODY
            and "session" not in self.legacy_features
            and self.http_status is not None
            and _HTTP_ERROR <= self.http_status < _HTTP_FAULT
            and self.http_status != _HTTP_BUSY
        )

    def towards(self, upstream: str, era: str, dialect: str) -> None:
        """Note where the request goes; with the client's era known, that gives the corner."""
        self.upstream, self.upstream_era, self.upstream_dialect = upstream, era, dialect
        if self.era is not None:
            self.corner = (self.era[:1] + era[:1]).upper()

    def rule(self, *ids: str) -> None:
        """Note the rules the request went through."""
        self.rules.update(ids)

    def feature(self, name: str) -> None:
        """Note a use of something that ends at sunset."""
        self.legacy_features.add(name)

    def lenient(self, rule: str, detail: str) -> None:
        """Write that a tolerant reading was used; `detail` has names and types, never values."""
        self.rules.add(rule)
        self._sink.emit(
            Lenient(rule=rule, detail=_bounded(detail), task_id=_bounded(self.task_id), **self._common())
        )

    def loss(self, rule: str, field: str) -> None:
        """Write that something could not cross; `field` is its name, never its value."""
        self.rules.add(rule)
        self._sink.emit(
            Loss(rule=rule, field=field[:_STATED_CHARS], task_id=_bounded(self.task_id), **self._common())
        )

    def denied(self, reason: str, limit: str | None = None) -> None:
        """Write why the request is refused, by which bound if one; that is its outcome too."""
        self.outcome, self.refusal = "denied", reason
        self._sink.emit(Denied(reason=reason, limit=limit, task_id=_bounded(self.task_id), **self._common()))

    def reached(self, limit: str) -> None:
        """Count that a bound is reached, by its key in the config."""
        self._sink.reached[limit] += 1

    def rerouted(self, wanted: str, reason: str) -> None:
        """Write that the request goes to another upstream than the rules name."""
        self.rerouted_for = reason
        self.event("rerouted", wanted=wanted, reason=reason, tool=_bounded(self.tool))

    def event(self, name: str, **fields: Any) -> None:
        """Write an event of that name with this request's context. KeyError, TypeError: no such event."""
        self._sink.emit(make(name, {**self._common(), **fields}))

    def finish(
        self, outcome: Outcome | None = None, *, code: int | None = None, http_status: int | None = None
    ) -> RequestEnded | None:
        """Write the `request` event and give it; a second call does nothing and gives None.

        Without an outcome: denied if `denied` was called, else told from code and status.
        """
        if self._ended:
            return None
        self._ended = True
        if code is not None:
            self.code = code
        if http_status is not None:
            self.http_status = http_status
        failed = self.code is not None or (self.http_status or 0) >= _HTTP_ERROR
        self.outcome = self.outcome or outcome or ("error" if failed else "ok")
        event = RequestEnded(
            outcome=self.outcome,
            method=_bounded(self.method),
            tool=_bounded(self.tool),
            task_id=_bounded(self.task_id),
            code=self.code,
            http_status=self.http_status,
            ms=round((perf_counter() - self._began) * 1000, 3),
            upstream_ms=round(self.upstream_ms, 3),
            upstream_calls=self.upstream_calls,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            rules=tuple(sorted(self.rules)),
            legacy=self.legacy,
            legacy_features=tuple(sorted(self.legacy_features)),
            unidentified=self.unidentified,
            reason=self.refusal,
            fault=self.fault,
            **self._common(),
        )
        self._sink.emit(event)
        return event

    def _common(self) -> dict[str, Any]:
        return {
            "request_id": self.request_id or None,
            "trace_id": self.trace_id,
            "caller": self.caller,
            "caller_kind": self.caller_kind,
            "caller_label": self.caller_label,
            "client": self.client,
            "era": self.era,
            "dialect": self.dialect,
            "upstream": self.upstream,
            "upstream_era": self.upstream_era,
            "upstream_dialect": self.upstream_dialect,
            "corner": self.corner,
        }


def _bounded(text: str | None) -> str | None:
    return text if text is None or len(text) <= _STATED_CHARS else text[:_STATED_CHARS]
