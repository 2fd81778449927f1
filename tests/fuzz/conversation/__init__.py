"""Whole conversations in any order: two callers, every API on both sides, real sockets, time by hand.

A model knows each task, whose it is, what its server has and what its owner was told; every answer, every
message on a stream, all that reaches the server and the rows on disk are held against it after each step.
"""

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.fuzz.conversation.four_peer import FourPeer
from tests.fuzz.conversation.new_peer import NewPeer
from tests.fuzz.conversation.old_peer import OldPeer
from tests.fuzz.conversation.trouble import TroubleRules
from tests.scripted import Scripted

__all__ = ["Conversation", "FourStateServer", "NewServer", "OldServer"]


class Conversation(TroubleRules):
    """In front of any server."""

    led: ClassVar[int] = 0
    """How many there were."""

    def begun(self) -> None:
        """Let both callers begin."""
        Conversation.led += 1
        self.create(("modern", "legacy"), None)
        self.create(("legacy", "modern"), None)


class OldServer(Conversation):
    """In front of a server of the old API: LL and ML."""

    @initialize(bound=st.booleans(), on_get=st.booleans())
    def begin(self, bound: bool, on_get: bool) -> None:  # noqa: FBT001 - hypothesis names its arguments
        """Run the server and the shim."""
        self.run(self.set_up(OldPeer.sessions, bound=bound, on_get=on_get))
        self.begun()

    def make_peer(self, server: Scripted, **flags: bool) -> OldPeer:
        """Make the server."""
        return OldPeer(self.world, server, **flags)


class FourStateServer(Conversation):
    """In front of a server of the four-state API."""

    @initialize(bound=st.booleans())
    def begin(self, bound: bool) -> None:  # noqa: FBT001 - as above
        """Run the server and the shim."""
        self.run(self.set_up(FourPeer.sessions, bound=bound, on_get=False))
        self.begun()

    def make_peer(self, server: Scripted, **flags: bool) -> FourPeer:
        """Make the server."""
        return FourPeer(self.world, server, **flags)


class NewServer(Conversation):
    """In front of a server of the new API: LM and MM."""

    @initialize(pushes=st.booleans())
    def begin(self, pushes: bool) -> None:  # noqa: FBT001 - as above
        """Run the server and the shim."""
        self.run(self.set_up(NewPeer.sessions, pushes=pushes))
        self.begun()

    def make_peer(self, server: Scripted, **flags: bool) -> NewPeer:
        """Make the server."""
        return NewPeer(self.world, server, **flags)
