"""The terms on which requests are taken."""

from dataclasses import dataclass

from shim.callers.resolve import Resolver
from shim.fronts.guard import Guard
from shim.fronts.sunset import Sunset


@dataclass(frozen=True, slots=True)
class Terms:
    """What is let in, as whom, and until when for the old API: one config's, replaced as a whole."""

    guard: Guard
    resolver: Resolver
    sunset: Sunset
