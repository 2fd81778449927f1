"""What callers do with tasks, and what becomes of these."""

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.client import Reply
from tests.corners.ml import accept
from tests.fuzz.conversation.model import CALLERS, ENDED, Job, Question, hold, wrong
from tests.fuzz.conversation.seat import SEATS, Legacy, Seat
from tests.fuzz.conversation.talk import EXPIRED, FRESH_MS, NOT_FOUND, Talk

WHO = st.sampled_from(CALLERS)
WHERE = st.sampled_from(sorted(SEATS))
OLD = st.sampled_from(sorted(name for name, seat in SEATS.items() if issubclass(seat, Legacy)))
PLACES = st.integers(0, 30)
_LOOKS = 30
_NOBODYS_HANDLE = "nobody-has-it"


class TaskRules(Talk):
    """Tasks are made, looked at, listed, cancelled and ended."""

    # -- rules -----------------------------------------------------------------------------------

    @rule(wheres=st.tuples(WHERE, WHERE), ttl_ms=st.sampled_from([None, None, None, 60_000]))
    def create(self, wheres: tuple[str, str], ttl_ms: int | None) -> None:
        """Let both callers call a tool that runs as a task, at the same moment."""
        seats = [self.seat(caller, where) for caller, where in zip(CALLERS, wheres, strict=True)]
        for seat in seats:
            self.reseated(seat, self.run(self.ping(seat)))
        before = len(self.world.jobs)
        replies = self.run(self.together(*(seat.create(ttl_ms) for seat in seats)))
        for seat, reply in zip(seats, replies, strict=True):
            self.given(seat, reply, before)

    @rule(place=PLACES, where=WHERE)
    def look(self, place: int, where: str) -> None:
        """Look at a task from any seat of its owner."""
        job = self.job(place)
        self.look_at(job, self.seat(job.owner, where))

    @rule(place=PLACES, where=WHERE)
    def look_until(self, place: int, where: str) -> None:
        """Look at a task until what became of it is told."""
        job = self.job(place)
        seat = self.seat(job.owner, where)
        shown: object = None
        for looks in range(_LOOKS):
            shown = self.look_at(job, seat)
            if self.is_told(job, seat, shown) and (looks or not job.gone):
                return
            self.run(self.tick())
        raise wrong(
            "never told what became of", job.handle, job.status, "gone" * job.gone, "but", shown, where
        )

    @rule(
        place=PLACES,
        where=WHERE,
        verb=st.sampled_from(["get", "cancel", "update", "result", "inputResponse"]),
    )
    def steal(self, place: int, where: str, verb: str) -> None:
        """Try a foreign task, which looks as one that is not there."""
        job = self.job(place)
        seat = self.seat(self.other(job.owner), where)
        if verb not in _VERBS[where]:
            return
        self.reseated(seat, self.run(self.ping(seat)))
        stolen = {f"elicitation-{n}": accept(to="stolen") for n in (1, 2)}
        stolen |= {question.name: accept(to="stolen") for question in job.questions}
        extra = {"inputResponses": stolen} if verb in {"update", "inputResponse"} else {}
        handles = (job.handle, _NOBODYS_HANDLE)
        told, nobody = (self.run(seat.ask(verb, one, id=7, **extra)) for one in handles)
        self.own(seat, told.body)
        hold(
            (told.status, told.body) == (nobody.status, nobody.body),
            "that it is there is told:",
            verb,
            told.body,
        )
        hold(
            told.error == {"code": -32602, "message": NOT_FOUND},
            "a foreign task is not refused:",
            verb,
            told.body,
        )

    @rule(caller=WHO, where=OLD)
    def list_tasks(self, caller: str, where: str) -> None:
        """List all tasks: they are the caller's own, newest first."""
        seat = self.seat(caller, where)
        assert isinstance(seat, Legacy)
        self.clock.advance(FRESH_MS)
        self.reseated(seat, self.run(self.ping(seat)))
        pages = self.run(seat.page_through())
        listed: dict[str, dict[str, Any]] = {}
        for page in pages:
            result = self.sound(seat, page)
            hold(result is not None, "no list:", page.body)
            listed |= {one["taskId"]: one for one in (result or {})["tasks"]}
        own = self.world.handed_out(caller)
        now_ms = self.clock.now_ms()
        expected = [job.handle for job in reversed(own) if job.handle in listed or not job.is_over(now_ms)]
        unclaimed = self.unclaimed()
        hold(
            [one for one in listed if one not in unclaimed] == expected,
            "another list:",
            list(listed),
            expected,
        )
        for job in own:
            if job.handle in listed:
                hold(not job.expired, "an expired task is listed:", job.handle)
                self.told(job, seat, listed[job.handle], "list")

    @rule(place=PLACES, where=WHERE)
    def cancel(self, place: int, where: str) -> None:
        """Cancel a task; one that has ended stays as it is."""
        job = self.job(place)
        seat = self.seat(job.owner, where)
        had_ended = job.end is not None or (job.status in ENDED and not job.gone)
        job.cancel_asked = job.cancel_asked or not had_ended
        reply = self.run(seat.ask("cancel", job.handle))
        if self.reseated(seat, reply):
            reply = self.run(seat.ask("cancel", job.handle))
        result = self.sound(seat, reply)
        if result is None:
            known = had_ended or job.gone or job.is_over(self.clock.now_ms())
            hold(
                known and reply.error["code"] in {-32602, -32603},
                "a cancel is refused:",
                job.handle,
                reply.body,
            )
        elif seat.era == "modern":
            hold(
                set(result) <= {"resultType", "_meta"}, "a cancel is answered with more than an ack:", result
            )
        else:
            self.told(job, seat, result, "cancel")

    @rule(
        place=PLACES, status=st.sampled_from(["completed", "completed", "failed", "cancelled"]),
        is_error=st.booleans(), then=st.sampled_from(["nothing", "look", "look and forget"]),
    )  # fmt: skip
    def end(self, place: int, status: str, is_error: bool, then: str) -> None:  # noqa: FBT001 - hypothesis names them
        """Let the server end a task; its owner may look, and the server forget it then, as servers do."""
        there = [job for job in self.world.handed_out() if job.is_open]
        if not there or (
            status == "cancelled" and self.peer.dialect == "create-status"
        ):  # it has no such state
            return
        job = there[place % len(there)]
        job.is_error = is_error and status == "completed"
        self.run(self.ending(job, status))
        if then != "nothing":
            self.look_at(job, self.seat(job.owner, "modern"))
        if then == "look and forget" and not job.gone:
            self.run(self.forgetting(job))

    # -- what rules share ------------------------------------------------------------------------

    async def ending(self, job: Job, status: str) -> None:
        """End a task at the server."""
        self.peer.end(job, status)

    async def forgetting(self, job: Job) -> None:
        """Let the server forget a task."""
        self.peer.forget(job)
        for stream in self.all_streams():
            stream.excused = stream.excused or stream.about == job.handle

    async def together(self, *asked: Any) -> list[Reply]:
        """Ask several things at the same moment."""
        replies: list[Reply] = await asyncio.gather(*asked)
        return replies

    async def ping(self, seat: Seat) -> Reply:
        """Ask something that every server answers."""
        method = "tools/list" if seat.era == "modern" else "ping"
        reply: Reply = await seat.client.request(method, {})
        return reply

    def reseated(self, seat: Seat, reply: Reply) -> bool:
        """Begin anew where a seat's session is lost, as clients do; gives whether it was."""
        if reply.status != 404 or seat.era == "modern":
            return False
        hold(self.has_lost_session(seat), "a living session is not known:", seat.name, reply.body)
        begun = self.run(seat.begin())
        if begun is not None:
            self.sound(seat, begun)
        return True

    def has_lost_session(self, seat: Seat) -> bool:
        """Whether a seat's session is one that its server or its client has ended."""
        raise NotImplementedError

    def given(self, seat: Seat, reply: Reply, before: int) -> None:
        """Take it that a handle was given for one of the tasks made since."""
        hold(self.sound(seat, reply) is not None, "a task is refused:", seat.name, reply.body)
        job = next(
            one for one in self.world.jobs[before:] if (one.owner, one.seat) == (seat.caller, seat.name)
        )
        job.handle = seat.handle(reply)
        taken = [one for one in self.world.handed_out() if one.handle == job.handle and one is not job]
        hold(not taken, "a handle is given twice:", job.handle)

    def look_at(self, job: Job, seat: Seat) -> object:
        """Look at a task afresh; gives the states it is shown in, or the error."""
        self.clock.advance(FRESH_MS)
        reply = self.run(seat.ask("get", job.handle))
        if self.reseated(seat, reply):
            reply = self.run(seat.ask("get", job.handle))
        result = self.sound(seat, reply)
        if result is None:
            self.excused(job, reply.error)
            return reply.error["message"]
        return self.told(job, seat, result, "get")

    def told(self, job: Job, seat: Seat, task: dict[str, Any], where: str) -> set[str]:
        """Take it that a task was shown; gives the states it was shown in."""
        hold(task["taskId"] == job.handle, "another task is shown:", job.handle, task)
        hold(not job.expired, "an expired task is shown:", job.handle, where)
        statuses = seat.statuses(task)
        if (
            seat.era == "legacy"
            and job.is_error
            and statuses == {"failed"}
            and job.end in {None, "completed"}
        ):
            statuses = {"completed"}
        if len(statuses) == 1:
            [status] = statuses
            job.told(status, f"{where} of {seat.name}", passed=self.passes(job, seat) and where != "list")
        else:
            hold(job.end is None, "an ended task is shown as open:", job.handle, where)
        if seat.era == "modern":
            self.brings(job, seat, task)
        return statuses

    def passes(self, job: Job, seat: Seat) -> bool:
        """Whether the server's own answers about a task pass to a seat."""
        return self.peer.sessions and seat.name == job.seat != "modern"

    def brings(self, job: Job, seat: Seat, task: dict[str, Any]) -> None:
        """Hold what stands in a task of the new API: its questions, or what it came to."""
        if task["status"] == "completed":
            self.result_is(job, task["result"])
        if task["status"] == "failed":
            self.error(task["error"])
        for key, asked in task.get("inputRequests", {}).items():
            question = self.world.question(asked["params"]["message"])
            hold(question.job is job, "a question of another task is shown:", job.handle, question.name)
            question.ways.setdefault((seat.caller, "update"), key)
            hold(question.ways[seat.caller, "update"] == key, "a question's key has changed:", question.name)

    def result_is(self, job: Job, result: dict[str, Any]) -> None:
        """Hold a task's result."""
        said = [one["text"] for one in result["content"]]
        hold(said == [job.name], "the result of another task:", job.handle, said)
        hold(bool(result.get("isError")) == job.is_error, "another result:", job.handle, result)

    def excused(self, job: Job, error: dict[str, Any]) -> None:
        """Hold that an error is told only where the server has lost the task, or its time is over."""
        if error["message"] == EXPIRED:
            hold(job.is_over(self.clock.now_ms()), "a task expired before its time:", job.handle)
            job.expired = True
            return
        if "forgot a session" in error["message"]:  # an outage, and nothing is told
            return
        hold(not job.expired, "an expired task is told of otherwise:", job.handle, error)
        hold(job.gone and error["code"] in {-32602, -32603}, "a handle is lost:", job.handle, error)

    def is_told(self, job: Job, seat: Seat, shown: object) -> bool:
        """Whether what became of a task was told."""
        if job.end is not None or job.expired:
            return True
        if isinstance(shown, str):  # an error, which its server gives for one that is lost
            return seat.name == job.seat and "forgot a session" not in shown
        if job.gone or job.status in ENDED:
            return False
        is_asking = any(one.is_open and not one.given and self.is_known(one) for one in job.questions)
        if seat.era == "modern" and is_asking:
            return shown == {"input_required"}
        return True

    def is_known(self, question: Question) -> bool:
        """Whether the shim must know a question: a client was shown it, or the shim alone hears the task."""
        alone = question.job is not None and question.job.seat == "modern"
        return bool(question.ways) or (alone and self.peer.dialect != "create-status")


_VERBS = {
    "modern": {"get", "cancel", "update"},
    "legacy": {"get", "cancel", "result"},
    "second": {"get", "cancel", "result"},
    "four": {"get", "cancel", "result", "inputResponse"},
}
