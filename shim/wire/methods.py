"""The names of methods that more than one room has to know; those of tasks stand in the dialects' tables."""

from shim.hub.facts import CALL

DISCOVER = "server/discover"
INITIALIZED = "notifications/initialized"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
LOGGED = "notifications/message"

RUN = frozenset((CALL, "prompts/get", "resources/read"))
"""What runs something on a server for as long as it takes, and may ask its client something on the way."""
