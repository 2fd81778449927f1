"""Nothing is answered from store to a claim that no upstream has accepted yet (OWN-VOUCH)."""

from shim.callers.vouch import VouchBook
from shim.upstreams.base import Context, Upstream


class Vouching:
    """Lets the upstream judge a credential before the ledger is asked anything under its name."""

    def __init__(self, vouches: VouchBook, upstream: Upstream) -> None:
        self._vouches = vouches
        self._upstream = upstream

    async def ensure(self, ctx: Context) -> None:
        """Let upstream judge the caller's credential unless it did lately. Raises Denied, ShimError.

        Also a task's existence is stored knowledge, so this comes before any look at whose it is.
        """
        if not self._vouches.is_vouched(ctx.caller):
            ctx.trace.rule("OWN-VOUCH")
            await self._upstream.judge(ctx)
        elif ctx.caller.kind != "token":
            self._upstream.credentials.offered(ctx)
