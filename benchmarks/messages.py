"""The requests of both eras as ready-made bytes: sending one costs the load generator next to nothing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

LEGACY_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}
_HERE = "1000000000"
FIRST_ID = int(_HERE)
"""Ids have ten digits, so that a request's length does not depend on its id."""


@dataclass(frozen=True, slots=True)
class Template:
    """A request with a hole for its id."""

    head: bytes
    tail: bytes

    def fill(self, number: int) -> bytes:
        """Give the request under this id."""
        return b"%b%d%b" % (self.head, number, self.tail)


@dataclass(slots=True)
class Speaker:
    """Builds one client's requests to one URL."""

    url: str
    key: str
    modern: bool = False
    session: str | None = None
    lines: Mapping[str, str] = field(default_factory=dict)

    def request(self, method: str, params: Mapping[str, Any]) -> Template:
        """Build a JSON-RPC request."""
        if self.modern:
            params = {**params, "_meta": MODERN_META}
        body = _compact({"jsonrpc": "2.0", "id": FIRST_ID, "method": method, "params": params})
        before, after = self._post(method, params, body).split(_HERE.encode(), 1)
        return Template(before, after)

    def notification(self, method: str) -> bytes:
        """Build a JSON-RPC notification."""
        return self._post(method, {}, _compact({"jsonrpc": "2.0", "method": method}))

    def stream(self) -> bytes:
        """Build the GET that opens a session's stream."""
        return self._head("GET", {"Accept": "text/event-stream"})

    def _post(self, method: str, params: Mapping[str, Any], body: bytes) -> bytes:
        lines = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(body)),
        }
        if self.modern:
            name = params.get("name") or params.get("taskId")
            lines |= {"Mcp-Method": method} | ({"Mcp-Name": name} if name else {})
        return self._head("POST", lines) + body

    def _head(self, verb: str, lines: Mapping[str, str]) -> bytes:
        place = urlsplit(self.url)
        every = {
            "Host": place.netloc,
            "X-API-Key": self.key,
            "MCP-Protocol-Version": MODERN_VERSION if self.modern else LEGACY_VERSION,
            **({} if self.session is None else {"Mcp-Session-Id": self.session}),
            **lines,
        }
        text = "".join(f"{name}: {value}\r\n" for name, value in every.items())
        return f"{verb} {place.path or '/'} HTTP/1.1\r\n{text}\r\n".encode()


def _compact(message: Mapping[str, Any]) -> bytes:
    """Encode as the clients in the field do, without white space."""
    return json.dumps(message, separators=(",", ":")).encode()
