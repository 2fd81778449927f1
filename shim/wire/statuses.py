"""The HTTP status of a JSON-RPC error by era, from `mappings/errors.toml` and nowhere else (ERRORS)."""

from shim.hub.registry import load_errors
from shim.wire.era import Era
from shim.wire.errors import ShimError
from shim.wire.http import OK

_TABLE = load_errors()
_BY_ERA = {era: {one.code: _TABLE.status(one.code, era) for one in _TABLE.values()} for era in Era}


def status_of(code: int, era: Era) -> int:
    """Give the status of an answer that carries an error with this code; 200 for a code of nobody's."""
    return _BY_ERA[era].get(code, OK)


def status_of_fault(fault: ShimError, era: Era) -> int:
    """Give the status of a refusal: its own where HTTP itself has one, else the code's."""
    return fault.http_status or status_of(fault.code, era)
