"""W3C trace context: headers on one side, keys of `_meta` on the other, the same in both (HEADERS)."""

import re
from collections.abc import Sequence

from shim.hub import rawjson
from shim.hub.rawjson import Members

Headers = Sequence[tuple[str, str]]

KEYS = ("traceparent", "tracestate", "baggage")
_AT_MOST = 8_192
"""What W3C Baggage allows, the longest of the three."""
_VALUE = re.compile(r"[\x20-\x7e]+")
_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.*")
_OBJECT = b"{"


def traced(params: Members, headers: Headers) -> tuple[Members, Headers]:
    """Say in either place what is said only in the other. What stands in a place already stays as it is.

    A state without its parent means nothing and goes nowhere; a value that is none is left where it is.
    """
    if not headers and "_meta" not in params:
        return params, headers
    in_meta, in_headers = _of_meta(params), _of_headers(headers)
    if not in_meta and not in_headers:
        return params, headers
    if in_meta.keys() == in_headers.keys():
        return params, headers
    more_headers = [(key, value) for key, value in in_meta.items() if _goes(key, in_headers)]
    more_meta = {key: rawjson.encode(value) for key, value in in_headers.items() if _goes(key, in_meta)}
    if more_meta:
        meta = rawjson.members(params.get("_meta", b"{}"))
        params = {**params, "_meta": rawjson.join({**meta, **more_meta})}
    return params, [*headers, *more_headers]


def _goes(key: str, there: dict[str, str]) -> bool:
    """Tell whether a key may go where others are: a state only beside the parent that it came with."""
    return key not in there and not (key == "tracestate" and "traceparent" in there)


def _of_meta(params: Members) -> dict[str, str]:
    meta = params.get("_meta", b"")
    members = rawjson.object_or_empty(meta)
    found = {key: rawjson.string(members.get(key)) for key in KEYS}
    return _valid({key: value for key, value in found.items() if value is not None})


def _of_headers(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if key in KEYS:  # lines of one header are one list
            found[key] = f"{found[key]},{value}" if key in found else value
    return _valid(found)


def _valid(found: dict[str, str]) -> dict[str, str]:
    fit = {key: value for key, value in found.items() if len(value) <= _AT_MOST and _VALUE.fullmatch(value)}
    if _PARENT.fullmatch(fit.get("traceparent", "")) is None:
        fit.pop("traceparent", None)
        fit.pop("tracestate", None)
    return fit
