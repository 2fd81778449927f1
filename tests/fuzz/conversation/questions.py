"""What servers ask, in tasks and in plain calls, and how it is answered."""

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.client import Reply
from tests.corners.ml import accept
from tests.fuzz.conversation.model import Job, Question, hold, wrong
from tests.fuzz.conversation.seat import Legacy, Seat
from tests.fuzz.conversation.tasks import OLD, PLACES, WHO, TaskRules

_PARKED_MS = 300_000
_TICKS = 40


@dataclass(eq=False)
class Parked:
    """A plain call of a modern client that waits for its client's answers."""

    seat: Seat
    question: Question
    state: str
    responses: dict[str, Any]
    given_ms: int
    run: int
    """Which run of the shim it is parked in."""
    answer: Any = None
    """What it came to."""


class QuestionRules(TaskRules):
    """Servers ask, clients answer, others try to."""

    def __init__(self) -> None:
        super().__init__()
        self.parked: list[Parked] = []

    # -- questions of tasks ----------------------------------------------------------------------

    @rule(
        place=PLACES, way=PLACES, times=st.sampled_from([1, 1, 2]), declines=st.booleans(),
        old=st.sampled_from([False, False, True]),
    )  # fmt: skip
    def answer(self, place: int, way: int, times: int, declines: bool, old: bool) -> None:  # noqa: FBT001 - as above
        """Answer a question by one of the ways that were shown, once or once more, or one that is over."""
        asked = [one for one in self.world.questions if one.ways and one.is_open != old]
        if not asked:
            return
        question = asked[place % len(asked)]
        ways = sorted(question.ways.items(), key=str)
        for _ in range(times):
            self.run(self.answered_by(question, *ways[way % len(ways)], declines=declines))

    @rule(place=PLACES)
    def answer_at_once(self, place: int) -> None:
        """Answer a question by all ways at the same moment: one of them counts."""
        asked = [one for one in self.world.questions if one.ways and one.is_open]
        if asked:
            self.run(self.by_all_ways(asked[place % len(asked)]))

    @rule(place=PLACES, where=OLD)
    def answer_foreign(self, place: int, where: str) -> None:
        """Answer another caller's question under the id it was asked with: nobody hears of it."""
        asked = [one for one in self.world.questions if one.key is not None]
        if not asked:
            return
        question = asked[place % len(asked)]
        seat = self.seat(self.other(question.owner), where)
        assert isinstance(seat, Legacy)
        ids = {one for (_, by), one in question.ways.items() if by != "update"} | {question.key}
        for one in sorted(ids, key=str):
            reply = self.run(seat.client.respond(one, accept(to="stolen")))
            if not self.reseated(seat, reply):
                self.sound(seat, reply)

    def answers_arrive(self) -> None:
        """Wait until what was acknowledged has reached the server."""
        for question in self.world.questions:
            for _ in range(_TICKS):
                if not (question.given and question.is_open):
                    break
                self.run(self.tick())
            else:
                raise wrong("an acknowledged answer never reached the server:", question.name)

    # -- questions of plain calls ----------------------------------------------------------------

    @rule(caller=WHO)
    def wonder(self, caller: str) -> None:
        """Call what asks in the middle, as a client of the new API."""
        seat = self.seat(caller, "modern")
        before = len(self.world.questions)
        reply = self.run(seat.client.call("wonder", seat.arguments()))
        result = self.sound(seat, reply)
        hold(
            result is not None and result["resultType"] == "input_required",
            "a call does not ask:",
            reply.body,
        )
        assert result is not None
        question = self.world.questions[before]
        [(key, asked)] = result["inputRequests"].items()
        hold(asked["params"]["message"] == question.name, "another question is asked:", asked)
        responses = {key: accept(to=question.name)}
        self.parked.append(
            Parked(seat, question, result["requestState"], responses, self.clock.now_ms(), self.runs)
        )

    @rule(place=PLACES, steals=st.booleans(), times=st.sampled_from([1, 2]))
    def come_back(self, place: int, steals: bool, times: int) -> None:  # noqa: FBT001 - as above
        """Come back with the answers, perhaps once more; another caller before may try to."""
        if not self.parked:
            return
        parked = self.parked[place % len(self.parked)]
        question = parked.question
        if steals and self.peer.sessions:  # a server of the new API looks after its states itself
            thief = self.seat(self.other(parked.seat.caller), "modern")
            stolen = dict.fromkeys(parked.responses, accept(to="stolen"))
            reply = self.run(self.retried(thief, parked, stolen))
            self.sound(thief, reply)
            hold(
                reply.json.get("error", {}).get("code") == -32602, "a foreign state is accepted:", reply.body
            )
        for _ in range(times):
            reply = self.run(self.retried(parked.seat, parked, parked.responses))
            result = self.sound(parked.seat, reply)
            if result is None:
                is_over = self.clock.now_ms() >= parked.given_ms + _PARKED_MS
                lost = parked.run != self.runs or question.session in self.lost_sessions
                hold(self.peer.sessions and (is_over or lost), "a parked call is lost:", reply.body)
                continue
            said = [one["text"] for one in result["content"]]
            hold(said == [question.name], "the result of another call:", said)
            hold(question.reached == 1, "a call went on without its answer:", question.name)

    @rule(caller=WHO, where=st.sampled_from(["legacy", "second"]))
    def wonder_on_a_stream(self, caller: str, where: str) -> None:
        """Call what asks in the middle, as a client of the old API, and answer it there."""
        seat = self.seat(caller, where)
        self.reseated(seat, self.run(self.ping(seat)))
        self.run(self.wondered(seat))

    # -- what rules share ------------------------------------------------------------------------

    @property
    def lost_sessions(self) -> set[str | None]:
        """The server's sessions that it does not know any more."""
        return {one for one in self.server.sessions if not self.server.knows(one)}

    async def asking(self, job: Job, count: int) -> None:
        """Ask so many things in a task at the server."""
        for _ in range(count):
            self.peer.ask(job)

    async def answered_by(
        self, question: Question, way: tuple[str, str], key: Any, *, declines: bool
    ) -> None:
        """Answer a question by a way that was shown."""
        caller, by = way
        answer = {"action": "decline"} if declines else accept(to=question.name)
        assert question.job is not None
        job, was_open = question.job, question.is_open
        if by == "update":
            seat = self.seats[caller, "modern"]
            reply = await seat.ask("update", job.handle, inputResponses={key: answer})
        else:
            name, _, session = by.partition(" ")
            seat = self.seats[caller, name]
            if seat.client.session != session:  # the client has begun anew since, and knows nothing of it
                return
            reply = await seat.client.respond(key, answer)
        if reply.status == 404 and seat.era == "legacy":
            hold(self.has_lost_session(seat), "a living session is not known:", seat.name, reply.body)
            return
        self.sound(seat, reply)
        if reply.status in {200, 202} and "error" not in (reply.json if reply.body else {}):
            question.given = question.given or (was_open and job.end is None)
        else:
            hold(
                job.gone or job.is_over(self.clock.now_ms()),
                "an answer is refused:",
                question.name,
                reply.body,
            )

    async def by_all_ways(self, question: Question) -> None:
        """Answer a question by all ways that were shown."""
        ways = sorted(question.ways.items(), key=str)
        await asyncio.gather(*(self.answered_by(question, way, key, declines=False) for way, key in ways))

    async def retried(self, seat: Seat, parked: Parked, responses: dict[str, Any]) -> Reply:
        """Call again with the answers."""
        arguments = parked.seat.arguments()
        reply: Reply = await seat.client.call(
            "wonder", arguments, requestState=parked.state, inputResponses=responses
        )
        return reply

    async def wondered(self, seat: Seat) -> None:
        """Call what asks in the middle over a stream, and answer it."""
        before = len(self.world.questions)
        params = {"name": "wonder", "arguments": seat.arguments()}
        async with seat.client.stream("tools/call", params) as stream:
            asked = await stream.message()
            self.own(seat, stream.frames[-1].data)
            question = self.world.questions[before]
            hold(asked["params"]["message"] == question.name, "another question is asked:", asked)
            reply = await seat.client.respond(asked["id"], accept(to=question.name))
            hold(reply.status == 202, "an answer is refused:", reply.status, reply.body)
            result = (await stream.message())["result"]
        hold(
            [one["text"] for one in result["content"]] == [question.name],
            "the result of another call:",
            result,
        )
        hold(question.reached == 1, "a call went on without its answer:", question.name)
