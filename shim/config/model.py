"""The config as a whole."""

from typing import Self

from pydantic import model_validator

from shim.config.clients import Legacy, Listen, Modern
from shim.config.cutover import Cutover
from shim.config.identity import Identity
from shim.config.limits import Limits
from shim.config.operations import Admin, Audit, Log
from shim.config.section import Section
from shim.config.service import (
    Ledger,
    Mappings,
    Ownership,
    Sessions,
    Tasks,
    UpstreamConfig,
)


class Config(Section):
    """Everything that may be set. Relative paths count from the working directory."""

    listen: Listen = Listen()
    upstream: tuple[UpstreamConfig, ...] = ()
    identity: Identity = Identity()
    tasks: Tasks = Tasks()
    sessions: Sessions = Sessions()
    modern: Modern = Modern()
    legacy: Legacy = Legacy()
    cutover: Cutover = Cutover()
    ownership: Ownership = Ownership()
    ledger: Ledger = Ledger()
    audit: Audit = Audit()
    limits: Limits = Limits()
    admin: Admin = Admin()
    mappings: Mappings = Mappings()
    log: Log = Log()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if any(
            name.lower() == self.identity.api_key.header.lower()
            for one in self.upstream
            for name in one.forward_headers
        ):
            raise ValueError("upstream.forward_headers: must not name identity.api_key.header (OWN-STORE)")
        if self.identity.authorization_servers and self.listen.public_url is None:
            raise ValueError("identity.authorization_servers: needs listen.public_url too")
        names = [one.name for one in self.upstream]
        if len(set(names)) != len(names):
            raise ValueError("upstream: two of them have the same name: give each a `name` of its own")
        if names:
            self._knows_upstreams(names)
            if self.cutover.shadow.tools:
                self._shadowed(names)
        self._ends_in_order()
        if self.tasks.promote_rerun and not self.ledger.store_results:
            raise ValueError(
                "tasks.promote_rerun: needs ledger.store_results, since a call that is to run once more has "
                "to be in the file"
            )
        same_port = self.admin.port == self.listen.port != 0
        if self.admin.enabled and same_port and self.admin.host == self.listen.host:
            raise ValueError("admin.port: must not be listen.port")
        return self

    def _knows_upstreams(self, names: list[str]) -> None:
        """Hold the upstreams that the cutover names against those there are."""
        if (unknown := self.cutover.unknown(names)) is not None:
            raise ValueError(f"cutover: no upstream is called {unknown!r}; there are {', '.join(names)}")
        if self.cutover.fallback == self.cutover.default_of(names):
            raise ValueError("cutover.fallback: is the default upstream itself")

    def _ends_in_order(self) -> None:
        """See that the old API is deprecated before it ends (RFC 9745), and that its end has a day."""
        cutover = self.cutover
        if cutover.sunset is not None and cutover.sunset < cutover.deprecation:
            raise ValueError("cutover.sunset: must not be before cutover.deprecation")
        if cutover.sunset is None and cutover.after_sunset != "serve":
            raise ValueError("cutover.after_sunset: needs cutover.sunset, which is not set")

    def _shadowed(self, names: list[str]) -> None:
        """Hold the shadow comparison against the upstreams there are."""
        if len(names) == 1:
            raise ValueError("cutover.shadow.tools: there is no second upstream to compare with")
        if self.cutover.shadow.upstream is None and len(names) > 2:  # noqa: PLR2004 - of two the other one
            raise ValueError("cutover.shadow.upstream: say which of the upstreams gets the copies")
