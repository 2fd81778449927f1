"""What befalls a conversation: restarts on either side, lost sessions, lost tasks, time, garbage."""
# ruff: noqa: E501 - garbage is long

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.fuzz.conversation.model import hold
from tests.fuzz.conversation.old_peer import OldPeer
from tests.fuzz.conversation.seat import Legacy, Seat
from tests.fuzz.conversation.streams import StreamRules
from tests.fuzz.conversation.tasks import OLD, PLACES, WHERE, WHO

GARBAGE = {
    "a list": b"[]", "nothing": b"{}", "no method": b'{"jsonrpc":"2.0","id":1}', "no JSON": b"\xff\x00{",
    "an id that is a number": b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":7}}',
    "two cases": b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x","taskID":"y"}}',
    "deep and broken": b'{"a":' + b"[" * 3_000,
    "deep": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plain","arguments":' + b"[" * 950 + b"]" * 950 + b"}}",
    "a surrogate": b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    "a cursor": b'{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{"cursor":"x"}}',
    "no task": b'{"jsonrpc":"2.0","id":1,"method":"tasks/status","params":{}}',
    "an answer to nothing": b'{"jsonrpc":"2.0","id":"q-1","result":{}}',
}  # fmt: skip
NAMES = st.sampled_from(
    ["Mcp-Name", "Mcp-Method", "MCP-Protocol-Version", "Mcp-Session-Id", "Last-Event-ID", "traceparent"]
)
VALUES = st.sampled_from(
    ["", "x", "=?base64?\u00e9?=", "=?base64?/w==?=", "2026-07-28", "2025-11-25", "9" * 40, "\u00ff"]
)


class TroubleRules(StreamRules):
    """Everything that is nobody's wish."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: set[str | None] = set()
        """Sessions that their clients have ended."""

    @rule(
        what=st.sampled_from(["restart", "kill", "session", "sessions", "server", "task", "delete"]),
        place=PLACES, caller=WHO, where=OLD,
    )  # fmt: skip
    def trouble(self, what: str, place: int, caller: str, where: str) -> None:
        """Let something befall the shim, the server or a client.

        The shim is stopped or killed and starts anew; the server forgets a session, all of them, all there is,
        or a task; a client ends its session.
        """
        living = [one for one in self.server.sessions if self.server.knows(one)]
        there = [job for job in self.world.handed_out() if not job.gone]
        if what in {"restart", "kill"}:
            self.run(self._restart(kill=what == "kill"))
        elif what == "session" and living:
            self.run(self._lose(living[place % len(living)]))
        elif what == "sessions":
            self.run(self._lose(*living))
        elif what == "server" and self.peer.sessions:
            for job in self.world.jobs:
                job.gone = True
            self.run(self._lose(*living))
        elif what == "task" and there:
            self.run(self.forgetting(there[place % len(there)]))
        elif what == "delete":
            self._delete(caller, where)

    async def _restart(self, *, kill: bool) -> None:
        await self.stop(kill=kill)
        self.runs += 1
        await self.start()

    async def _lose(self, *sessions: str) -> None:
        if isinstance(self.peer, OldPeer):
            self.peer.lose(*sessions)
        for stream in self.all_streams():
            stream.excused = True

    def _delete(self, caller: str, where: str) -> None:
        """End a session, as a client that leaves does; then begin anew."""
        seat = self.seat(caller, where)
        assert isinstance(seat, Legacy)
        session = seat.client.session
        reply = self.run(seat.client.delete())
        hold(
            reply.status in {200, 204} or self.has_lost_session(seat),
            "a session cannot be ended:",
            reply.status,
        )
        self.deleted.add(session)
        if isinstance(self.peer, OldPeer) and session is not None:
            self.run(self._lose(session))
        reply = self.run(self.ping(seat))
        hold(reply.status == 404, "an ended session lives:", reply.status, reply.body)
        begun = self.run(seat.begin())
        hold(begun is not None and begun.status == 200, "no new session:", begun)

    def has_lost_session(self, seat: Seat) -> bool:
        """Whether a seat's session is one that its server or its client has ended."""
        session = seat.client.session
        return session in self.deleted or (self.peer.sessions and not self.server.knows(session))

    @rule(caller=WHO, where=WHERE, what=st.sampled_from(sorted(GARBAGE)), name=NAMES, value=VALUES)
    def nonsense(self, caller: str, where: str, what: str, name: str, value: str) -> None:
        """Send what is no message, and a call with an odd header."""
        seat = self.seat(caller, where)
        headers = {**seat.client.own_headers(None), **seat.client.headers}
        self.sound(seat, self.run(seat.client.send(GARBAGE[what], headers=headers)))
        self.sound(seat, self.run(seat.client.call("plain", {}, headers={name: value})))

    @rule(ms=st.sampled_from([10, 1_000, 20_000, 65_000, 700_000]))
    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.clock.advance(ms)
