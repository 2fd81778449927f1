"""A config that is read again while the shim runs: what can be swapped is swapped, the rest is named."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from shim.audit.events import AuditSink, ConfigReloaded
from shim.config import Config, ConfigError, changed_keys, service_token
from shim.config.live import Live
from shim.fronts.endpoint import Endpoint
from shim.fronts.terms import Terms
from shim.standing import Stand
from shim.steering import tell_cutover

log = structlog.get_logger("shim")

_LIVE = (
    "limits.", "tasks.", "sessions.", "modern.", "legacy.", "identity.", "ownership.", "cutover.",
    "listen.allowed_origins", "listen.allowed_hosts",
)  # fmt: skip
_AT_START = frozenset((
    "limits.header_bytes", "limits.shutdown_ms", "limits.pages", "limits.tools", "identity.key_file",
))  # fmt: skip


_LIVE_UPSTREAM = re.compile(
    r"upstream\[\d+\]\.(?:forward_headers|service_token|headers|answer_timeout_ms|recheck_ms).*"
)


def is_live(key: str) -> bool:
    """Tell whether a key of the config takes effect without a restart."""
    return (key.startswith(_LIVE) or _LIVE_UPSTREAM.fullmatch(key) is not None) and key not in _AT_START


@dataclass(frozen=True, slots=True)
class Reload:
    """Puts a new config in force. Everything that may fail is made before anything is swapped."""

    started: Config
    live: Live
    terms: Callable[[Config], Terms]
    """Gives the terms that a config sets. Raises ConfigError."""
    sink: AuditSink
    endpoint: Endpoint
    stands: Mapping[str, Stand]

    def __call__(self, new: Config) -> None:
        """Swap what can be swapped and say what cannot. Raises ConfigError; then all is as it was."""
        old = self.live.in_force
        if (unknown := new.cutover.unknown(self.stands)) is not None:
            raise ConfigError(
                f"cutover: upstream {unknown!r} is new, and a new upstream needs a restart: leave it out of "
                "[cutover] until then"
            )
        terms = self.terms(new)
        settings = {one.name: one for one in new.upstream}
        tokens = {name: service_token(settings[name]) for name in self.stands.keys() & settings.keys()}

        self.live.renew(new)
        self.endpoint.terms = terms
        for name, token in tokens.items():
            self.stands[name].renew(new, settings[name], token)
        self._tell(old, new)

    def _tell(self, old: Config, new: Config) -> None:
        changed = tuple(filter(is_live, changed_keys(old, new)))
        waiting = tuple(key for key in changed_keys(self.started, new) if not is_live(key))
        log.info("config reloaded", changed=changed)
        if waiting:
            log.warning("these keys take effect with the next start", keys=waiting)
        self.sink.emit(ConfigReloaded(changed=changed))
        tell_cutover(self.sink, old.cutover, new.cutover, "config")
