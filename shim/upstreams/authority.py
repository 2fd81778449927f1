"""Whose credential goes upstream (OWN-CREDENTIAL), and what an acceptance proves (OWN-VOUCH)."""

from collections.abc import Mapping, Sequence

from shim.callers.vouch import CredentialStore, VouchBook
from shim.upstreams.base import Context


class Authority:
    """Builds the headers that say who asks, by the upstream's configured mode.

    `mode`: pass (the caller's own credential), service (the shim's `token`) or none.
    """

    def __init__(
        self,
        mode: str,
        token: str | None,
        fixed: Mapping[str, str],
        *,
        vouches: VouchBook,
        held: CredentialStore,
    ) -> None:
        self._mode = mode
        self.sign(token, fixed)
        self.vouches = vouches
        self.held = held

    def sign(self, token: str | None, fixed: Mapping[str, str]) -> None:
        """Take the service's token and the headers that every request carries."""
        self._fixed: Sequence[tuple[str, str]] = tuple(fixed.items())
        self._service = (("Authorization", f"Bearer {token}"),) if token else ()

    def own(self) -> list[tuple[str, str]]:
        """Give the headers of a request that is nobody's: never a caller's credential."""
        return [*self._fixed, *(self._service if self._mode == "service" else ())]

    def headers(self, ctx: Context) -> list[tuple[str, str]]:
        """Give the headers of one request to the upstream."""
        headers = [*self._fixed, *ctx.headers]
        if self._mode == "pass":
            credential = ctx.caller.credential or self.held.get(ctx.caller.key)
            if credential is not None:
                headers.append(("Authorization", credential.authorization))
        elif self._mode == "service":
            headers.extend(self._service)
        return headers

    def accepted(self, ctx: Context) -> None:
        """Note that the upstream took a request made for this caller."""
        if self._mode == "pass":
            self.vouches.vouch(ctx.caller)
            self.held.hold(ctx.caller)

    def refused(self, ctx: Context) -> None:
        """Note that the upstream answered 401 or 403: background work for this caller has to wait."""
        if self._mode == "pass":
            held = self.held.get(ctx.caller.key)
            refused = ctx.caller.credential or held
            self.vouches.refuse(refused)
            self.held.refuse(ctx.caller.key, refused)
            if refused == held:
                self.held.drop(ctx.caller.key)

    def waiting(self, ctx: Context) -> bool:
        """Tell whether background work for this caller has to wait for a credential of theirs."""
        return self._mode == "pass" and ctx.caller.credential is None and self.held.lacks(ctx.caller)

    def pause(self, ctx: Context, pk: int) -> bool:
        """Note that work on a task waits; False if that was told already in this pause."""
        return self.held.pause(ctx.caller.key, pk)

    def offered(self, ctx: Context) -> None:
        """Take up the credential of a caller who is known without the upstream, where there is none.

        The upstream judges it with the first work that it is used for; one that it refused is not taken.
        """
        if self._mode == "pass":
            self.held.offer(ctx.caller)

    async def renewed(self, ctx: Context) -> None:
        """Wait until the caller comes back with a credential that the upstream accepts."""
        await self.held.renewed(ctx.caller.key)
