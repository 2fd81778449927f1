"""A config that is read again while the shim runs: what can be swapped is swapped, the rest is named."""

from dataclasses import dataclass

import structlog

from shim.audit.events import AuditSink, ConfigReloaded
from shim.behind import Behind
from shim.callers.keys import Keys
from shim.callers.resolve import build_resolver
from shim.config import Config, changed_keys, service_token
from shim.config.live import Live
from shim.fronts.endpoint import Endpoint
from shim.fronts.guard import Guard
from shim.fronts.sunset import sunset_headers
from shim.upstreams.authority import Authority
from shim.upstreams.http import Limits, Link

log = structlog.get_logger("shim")

_LIVE = (
    "limits.", "tasks.", "sessions.", "modern.", "legacy.", "identity.", "ownership.", "cutover.",
    "listen.allowed_origins", "listen.allowed_hosts", "upstream[0].forward_headers",
    "upstream[0].service_token", "upstream[0].headers", "upstream[0].answer_timeout_ms",
)  # fmt: skip
_AT_START = frozenset((
    "limits.header_bytes", "limits.shutdown_ms", "limits.pages", "limits.tools", "identity.key_file",
))  # fmt: skip


def is_live(key: str) -> bool:
    """Tell whether a key of the config takes effect without a restart."""
    return key.startswith(_LIVE) and key not in _AT_START


def link_limits(config: Config) -> Limits:
    """Give the bounds of exchanges with the upstream."""
    settings = config.upstream[0]
    return Limits(
        frame_bytes=config.limits.frame_bytes,
        connect_timeout_ms=settings.connect_timeout_ms,
        answer_timeout_ms=settings.answer_timeout_ms,
    )


@dataclass(frozen=True, slots=True)
class Reload:
    """Puts a new config in force. Everything that may fail is made before anything is swapped."""

    started: Config
    live: Live
    keys: Keys
    sink: AuditSink
    endpoint: Endpoint
    link: Link
    behind: Behind
    authority: Authority

    def __call__(self, new: Config) -> None:
        """Swap what can be swapped and say what cannot. Raises ConfigError; then all is as it was."""
        old, settings = self.live.in_force, new.upstream[0]
        judged = self.started.upstream[0].credentials == "pass"
        resolver = build_resolver(new.identity, self.keys, judged=judged)
        token = service_token(settings)

        self.live.renew(new)
        self.endpoint.renew(Guard(new), resolver, sunset_headers(new.cutover))
        self.link.limits = link_limits(new)
        self.behind.renew(new)
        self.authority.sign(token, settings.fixed_headers())
        self.authority.vouches.vouch_ms = new.identity.vouch_ms
        self.authority.held.hold_ms = new.identity.credential_hold_ms
        self._tell(old, new)

    def _tell(self, old: Config, new: Config) -> None:
        changed = tuple(filter(is_live, changed_keys(old, new)))
        waiting = tuple(key for key in changed_keys(self.started, new) if not is_live(key))
        log.info("config reloaded", changed=changed)
        if waiting:
            log.warning("these keys take effect with the next start", keys=waiting)
        self.sink.emit(ConfigReloaded(changed=changed))
