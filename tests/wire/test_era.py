"""ERA-DETECT: every way in which a request says its era, and the ways in which it contradicts itself."""

import pytest
from multidict import CIMultiDict

from shim.hub import rawjson
from shim.wire.era import Era, classify
from shim.wire.errors import ClientFault
from shim.wire.jsonrpc import Message, Notification, Request, Response
from shim.wire.statuses import status_of_fault

MODERN, LEGACY = "2026-07-28", "2025-11-25"
KEY = "io.modelcontextprotocol/protocolVersion"
SESSION = {"mcp-session-id": "s"}


def asks(meta: object = None, method: str = "tools/call") -> Request:
    return Request(b"1", method, {} if meta is None else {"_meta": rawjson.encode(meta)})


@pytest.mark.rule("ERA-DETECT")
@pytest.mark.parametrize(
    ("headers", "message", "era"),
    [
        ({}, asks({KEY: MODERN}), Era.MODERN),
        ({"mcp-protocol-version": MODERN}, asks({KEY: MODERN}), Era.MODERN),
        ({"mcp-protocol-version": MODERN}, asks(), Era.MODERN),
        ({"mcp-protocol-version": MODERN}, asks({"progressToken": 1}), Era.MODERN),
        ({"mcp-protocol-version": MODERN}, asks("no object"), Era.MODERN),
        ({"mcp-protocol-version": MODERN, **SESSION}, asks(), Era.MODERN),
        ({"mcp-protocol-version": MODERN, **SESSION}, asks({"progressToken": 1}, "tasks/result"), Era.MODERN),
        ({"mcp-protocol-version": MODERN, **SESSION}, Notification("notifications/x", {}), Era.MODERN),
        ({"mcp-protocol-version": MODERN, **SESSION}, asks(None, "initialize"), Era.LEGACY),
        ({"mcp-protocol-version": MODERN, **SESSION}, Response(b"1", b"{}", None), Era.LEGACY),
        ({"mcp-protocol-version": MODERN, **SESSION}, None, Era.LEGACY),
        ({"mcp-protocol-version": "2027-01-01"}, asks(), Era.MODERN),
        ({}, asks({KEY: "2027-01-01"}), Era.MODERN),
        (SESSION, asks({KEY: MODERN}), Era.MODERN),
        ({}, Notification("notifications/x", {"_meta": rawjson.encode({KEY: MODERN})}), Era.MODERN),
        ({}, asks({KEY: MODERN}, "initialize"), Era.MODERN),
        ({}, asks({KEY: MODERN}, "tasks/result"), Era.MODERN),
        ({}, asks(), Era.LEGACY),
        ({}, asks({"progressToken": 1}), Era.LEGACY),
        ({}, asks({KEY: LEGACY}), Era.LEGACY),
        ({}, asks({KEY: 7}), Era.LEGACY),
        ({}, asks(None, "initialize"), Era.LEGACY),
        ({}, asks(None, "tasks/update"), Era.LEGACY),
        ({}, asks(None, "server/discover"), Era.LEGACY),
        (SESSION, asks(), Era.LEGACY),
        ({"mcp-protocol-version": LEGACY}, asks(), Era.LEGACY),
        ({"mcp-protocol-version": "2025-03-26"}, asks(), Era.LEGACY),
        ({"mcp-protocol-version": "2024-11-05"}, asks(), Era.LEGACY),
        ({"mcp-protocol-version": LEGACY, **SESSION}, Notification("notifications/x", {}), Era.LEGACY),
        (SESSION, Response(b"1", b"{}", None), Era.LEGACY),
        (SESSION, None, Era.LEGACY),
        ({}, None, Era.LEGACY),
    ],
)
def test_the_era_of_a_request(headers: dict[str, str], message: Message | None, era: Era) -> None:
    assert classify(CIMultiDict(headers), message, None) is era


@pytest.mark.rule("ERA-DETECT")
@pytest.mark.parametrize("version", [LEGACY, "2025-06-18", "2025-03-26"])
@pytest.mark.parametrize("pinned", [None, *Era])
def test_a_legacy_header_contradicts_modern_meta(version: str, pinned: Era | None) -> None:
    with pytest.raises(ClientFault) as caught:
        classify(CIMultiDict({"MCP-Protocol-Version": version}), asks({KEY: MODERN}), pinned)
    assert (caught.value.code, status_of_fault(caught.value, Era.MODERN)) == (-32020, 400)


@pytest.mark.rule("ERA-DETECT")
@pytest.mark.parametrize("pinned", list(Era))
@pytest.mark.parametrize("message", [asks(), asks({KEY: MODERN}), None, Response(b"1", b"{}", None)])
def test_a_pinned_address_has_one_era(pinned: Era, message: Message | None) -> None:
    assert classify(CIMultiDict(), message, pinned) is pinned
