"""What clients read beside what they ask: a session's own stream, subscriptions, waits for results."""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.client import RELATED_TASK
from tests.fuzz.conversation.model import ENDED, Job, hold, wrong
from tests.fuzz.conversation.questions import QuestionRules
from tests.fuzz.conversation.seat import Legacy, Seat, Stream
from tests.fuzz.conversation.tasks import OLD, PLACES, WHO

_TICKS = 60
_INTERNAL = -32603
_MOST = 4
_GRACE_STEPS = 2
"""What was written before an end was told may be read so much later."""
_CHANGED = frozenset(("notifications/tasks", "notifications/tasks/status"))
_LISTEN = "subscriptions/listen"


class StreamRules(QuestionRules):
    """Streams are opened, read, left and taken up again."""

    def __init__(self) -> None:
        super().__init__()
        self.last_ids: dict[Seat, str | None] = {}
        """The last event that a seat's own stream had when it was left."""

    # -- rules -----------------------------------------------------------------------------------

    @rule(caller=WHO, where=OLD, resumes=st.booleans())
    def open_get(self, caller: str, where: str, resumes: bool) -> None:  # noqa: FBT001 - hypothesis names them
        """Read a session's own stream, from where it was left or anew."""
        seat = self.seat(caller, where)
        assert isinstance(seat, Legacy)
        self.read_own(seat, resumes=resumes)

    @rule(caller=WHO, where=OLD)
    def blink(self, caller: str, where: str) -> None:
        """Lose the connection of a session's own stream, and take it up again."""
        seat = self.seat(caller, where)
        assert isinstance(seat, Legacy)
        for stream in [one for one in seat.streams if one.kind == "get"]:
            self.cut(stream)
            self.run(self.tick())
        self.read_own(seat, resumes=True)

    @rule(
        place=PLACES,
        count=st.sampled_from([1, 2]),
        heard=st.sampled_from(["look", "get", "result", "nowhere"]),
    )
    def ask(self, place: int, count: int, heard: str) -> None:
        """Let a task ask something, while its owner looks, reads its stream, waits for the result, or not."""
        there = [job for job in self.world.handed_out() if job.is_open and len(job.questions) < _MOST]
        if not there:
            return
        job = there[place % len(there)]
        seat = self.seat(job.owner, job.seat)
        if isinstance(seat, Legacy) and heard in {"get", "result"}:
            self.reseated(seat, self.run(self.ping(seat)))
            if heard == "get":
                self.read_own(seat, resumes=True)
            else:
                self.read_result(job, seat)
            self.run(self.tick())
        if job.is_open:
            self.run(self.asking(job, count))
        if heard == "look" or seat.era == "modern":
            self.look_at(job, self.seat(job.owner, "modern"))
        elif heard != "nowhere":
            self.run(self.tick())

    @rule(caller=WHO, places=st.lists(PLACES, max_size=4), every=st.booleans())
    def listen(self, caller: str, places: list[int], every: bool) -> None:  # noqa: FBT001 - as above
        """Subscribe to tasks, one's own and others, or to all."""
        seat = self.seat(caller, "modern")
        jobs = [self.job(place) for place in places]
        handles = list(dict.fromkeys([*(job.handle for job in jobs), "nobody-has-it"]))
        wanted: Any = (
            [next(iter(_CHANGED - {"notifications/tasks/status"}))] if every else {"taskIds": handles}
        )
        stream = self.run(seat.open(_LISTEN, seat.client.stream(_LISTEN, {"notifications": wanted})))
        mine = [job for job in (self.world.handed_out(caller) if every else jobs) if job.owner == caller]
        if self.refuses_listen() and not every:
            self.run(seat.leave(stream))
            return
        hold(stream.status == 200, "no subscription:", stream.status, stream.frames)
        self.run(self.acknowledged(stream, [] if every else mine))

    @rule(place=PLACES, where=OLD)
    def wait_for_result(self, place: int, where: str) -> None:
        """Wait for what a task comes to."""
        job = self.job(place)
        seat = self.seat(job.owner, where)
        self.reseated(seat, self.run(self.ping(seat)))
        self.read_result(job, seat)

    @rule(place=PLACES)
    def leave_stream(self, place: int) -> None:
        """Cut a stream's connection."""
        streams = list(self.all_streams())
        if not streams:
            return
        self.cut(streams[place % len(streams)])

    def cut(self, stream: Stream) -> None:
        """Cut a stream's connection."""
        self.hear(stream)
        stream.seat.event_ids.update(stream.ids)
        if stream.kind == "get":
            self.last_ids[stream.seat] = stream.last_id
        self.run(stream.seat.leave(stream))

    @rule()
    def catch_up(self) -> None:
        """Wait until answers have arrived, and each stream has said what became of what it is about."""
        self.answers_arrive()
        for stream in list(self.all_streams()):
            for _ in range(_TICKS):
                missing = self.missing(stream)
                if not missing:
                    break
                self.run(self.tick())
                self.hear(stream)
            else:
                handles = [one.handle for one in missing]
                raise wrong("a stream never said the end of", handles, stream.kind)

    # -- what rules share ------------------------------------------------------------------------

    def read_own(self, seat: Legacy, *, resumes: bool) -> None:
        """Read a session's own stream, if it is not read."""
        if any(one.kind == "get" for one in seat.streams):
            return
        last_id = self.last_ids.get(seat) if resumes else None
        stream = self.run(seat.open("get", seat.client.get(last_event_id=last_id)))
        if stream.status != 200:
            hold(stream.status == 404 and self.has_lost_session(seat), "no stream:", seat.name, stream.status)
            self.run(seat.leave(stream))
            self.run(seat.begin())

    def read_result(self, job: Job, seat: Seat) -> None:
        """Wait for a result, if that is not done."""
        if all(one.about != job.handle for one in seat.streams):
            waiting = seat.client.stream("tasks/result", {"taskId": job.handle})
            self.run(seat.open("result", waiting, job.handle))

    def refuses_listen(self) -> bool:
        """Whether the server itself refuses a subscription."""
        return self.peer.dialect == "sep-2663" and not getattr(self.peer, "pushes", False)

    async def acknowledged(self, stream: Stream, mine: list[Job]) -> None:
        """Wait for what is honoured: all that is asked and the caller's own, and nothing else."""
        while not stream.frames and not stream.is_over:
            await self.tick()
        [first, *_] = map(json.loads, stream.frames)
        hold(first.get("method") == "notifications/subscriptions/acknowledged", "no acknowledgement:", first)
        honoured = first["params"]["notifications"].get("taskIds", [])
        stream.named = set(honoured)
        now_ms = self.clock.now_ms()
        for handle in honoured:
            job = self.world.by_handle(handle)
            hold(job.owner == stream.seat.caller, "a foreign task is honoured:", handle)
        left_out = [job.handle for job in mine if job.handle not in stream.named and not job.is_over(now_ms)]
        hold(not left_out, "an own task is not honoured:", left_out)

    def missing(self, stream: Stream) -> list[Job]:
        """Give the tasks whose end a stream must say and has not said."""
        if stream.is_over:
            return []
        return [job for job in self.world.handed_out(stream.seat.caller) if self._must_say(stream, job)]

    def _must_say(self, stream: Stream, job: Job) -> bool:
        if stream.said.get(job.handle) in ENDED or job.expired or job.is_over(self.clock.now_ms()):
            return False
        ended = job.status in ENDED and not job.gone
        if stream.kind == "result":
            return stream.about == job.handle and ended and not stream.excused
        if stream.kind == _LISTEN:
            return stream.named is not None and job.handle in stream.named and ended
        return False

    # -- what came -------------------------------------------------------------------------------

    def hear(self, stream: Stream) -> None:
        """Hold what came on a stream against the model."""
        frames, stream.frames = stream.frames, []
        twice = [one for one in stream.ids if stream.ids.count(one) > 1 or one in stream.seat.event_ids]
        hold(not twice, "an event came twice:", stream.kind, twice)
        for frame in frames:
            self.own(stream.seat, frame)
            message = json.loads(frame)
            method, params = message.get("method"), message.get("params", {})
            if method in _CHANGED:
                self._heard_change(stream, params)
            elif method == "elicitation/create":
                self._heard_question(stream, message["id"], params)
            elif method is None:
                self._heard_answer(stream, message)
        if stream.is_over:
            hold(
                stream.kind != "result" or stream.excused or stream.said,
                "a result's stream ended without an answer:", stream.about,
            )  # fmt: skip
            stream.seat.streams.remove(stream)

    def _heard_change(self, stream: Stream, params: dict[str, Any]) -> None:
        job = self.world.by_handle(params["taskId"])
        hold(
            stream.named is None or job.handle in stream.named or job, "a task nobody asked for:", job.handle
        )
        before = stream.said.get(job.handle)
        status = params["status"]
        if stream.seat.era == "legacy" and job.is_error and status == "failed":
            status = "completed"
        if job.end is not None and status not in ENDED:
            late = self.step - self.told_in.get(job.handle, self.step) > _GRACE_STEPS
            hold(not late, "a stream says otherwise:", job.handle, job.end, "->", status)
        else:
            job.told(status, f"{stream.kind} of {stream.seat.name}", passed=self.passes(job, stream.seat))
        hold(before not in ENDED, "a stream goes on about what has ended:", job.handle, before, "->", status)
        stream.said[job.handle] = status
        if stream.seat.era == "modern" and status in {"completed", "failed", "input_required"}:
            self.brings(job, stream.seat, params)

    def _heard_question(self, stream: Stream, request_id: Any, params: dict[str, Any]) -> None:
        question = self.world.question(params["message"])
        job = question.job
        hold(job is not None, "a plain call's question on another stream:", question.name)
        assert job is not None
        hold(
            stream.kind != "result" or stream.about == job.handle,
            "a question on another task's result:",
            job.handle,
        )
        related = params.get("_meta", {}).get(RELATED_TASK, {}).get("taskId")
        hold(related in {job.handle, None}, "a question says another task:", job.handle, related)
        way = f"{stream.seat.name} {stream.seat.client.session}"
        known = question.ways.get((stream.seat.caller, way), request_id)
        hold(
            known == request_id or question.given or job.gone,  # asked on where an answer was refused
            "a question goes under two ids over one session:", question.name,
        )  # fmt: skip
        question.ways[stream.seat.caller, way] = request_id

    def may_be_error(self, job: Job) -> bool:
        """Whether an error can be what a task came to."""
        over = job.is_over(self.clock.now_ms())
        return job.end != "completed" and bool(job.may_end() - {"completed"} or over)

    def _heard_answer(self, stream: Stream, message: dict[str, Any]) -> None:
        if stream.kind != "result":
            return
        job = self.world.by_handle(stream.about)
        if "result" in message:
            stream.seat.speaks(message["result"])
            self.result_is(job, message["result"])
            job.told("completed", f"result of {stream.seat.name}", passed=self.passes(job, stream.seat))
            stream.said[job.handle] = "completed"
            return
        error = message["error"]
        self.error(error)
        if stream.excused and error["code"] == _INTERNAL:  # it broke off on either side
            stream.said[job.handle] = "working"
            return
        its_own = job.gone and self.passes(job, stream.seat)  # the server's word for what it has lost
        hold(its_own or self.may_be_error(job), "a result is an error:", job.handle, error)
        stream.said[job.handle] = "failed"
