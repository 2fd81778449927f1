"""A server of the new API: no sessions, questions stand in the task, a call that asks is called again."""

from typing import Any

from tests.corners.lm import ACK, DISCOVER, elicitation, made, seen_as
from tests.fuzz.conversation.model import Job, Question, World, hold
from tests.fuzz.conversation.peer import NOBODYS, TOOLS, Peer, content_of, credential, has_ended, said
from tests.scripted import Error, Scriptable, Scripted, Seen, Stream, text

_PUSHED = "notifications/tasks"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class NewPeer(Peer):
    """Speaks `sep-2663`.

    `pushes`: it has `subscriptions/listen`, and tells everybody of every task, as one would that knows no
    callers.
    """

    dialect = "sep-2663"
    sessions = False

    def __init__(self, world: World, server: Scripted, *, pushes: bool) -> None:
        self.pushes = pushes
        self._listeners: dict[Stream, Seen] = {}
        super().__init__(world, server)

    def script(self) -> None:
        """Let the scripted server answer off the model."""
        on = self.on
        on("server/discover", DISCOVER)
        on("tools/list", {"resultType": "complete", **TOOLS, "ttlMs": 5, "cacheScope": "public"})
        on("tools/call", self._call)
        on("tasks/get", self._get)
        on("tasks/cancel", self._cancel)
        on("tasks/update", self._update)
        if self.pushes:
            on("subscriptions/listen", self._listen)

    # -- what it does of itself ------------------------------------------------------------------

    def ask(self, job: Job) -> Question:
        """Ask something in a task."""
        question = self.world.add_question(job.owner, job)
        question.key = question.name
        self._push(job)
        return question

    def end(self, job: Job, status: str) -> None:
        """End a task."""
        super().end(job, status)
        self._push(job)

    def _push(self, job: Job) -> None:
        self._listeners = {stream: seen for stream, seen in self._listeners.items() if not stream.is_over}
        for stream, seen in self._listeners.items():
            self._push_to(stream, seen, job)

    def _push_to(self, stream: Stream, seen: Seen, job: Job) -> None:
        shown = self._shown(job)
        shown.pop("resultType")
        params = {**shown, "_meta": {_SUBSCRIPTION: seen.id}}
        self.soon(stream.send({"jsonrpc": "2.0", "method": _PUSHED, "params": params}))

    # -- what it answers -------------------------------------------------------------------------

    def _call(self, seen: Seen) -> Scriptable:
        if seen.params["name"] in {"run", "must"}:
            job = self.made(seen, seen.params)
            return made(job.name, ttlMs=job.ttl_ms)
        if seen.params["name"] == "wonder":
            return self._wonder(seen)
        return {"resultType": "complete", **text("plain")}

    def _wonder(self, seen: Seen) -> Scriptable:
        """Ask in the middle of a plain call: the state names the question, and whose it is."""
        state = seen.params.get("requestState")
        if state is None:
            question = self.world.add_question(seen.params["arguments"]["owner"], key="sure")
            question.session = credential(seen)
            return {
                "resultType": "input_required",
                "inputRequests": {"sure": elicitation(question.name)},
                "requestState": f"state of {question.name}",
            }
        question = self.world.question(state.rpartition(" ")[2])
        hold(question.session == credential(seen), "a state came with a foreign credential:", question.name)
        answer = seen.params["inputResponses"].get("sure")
        if answer is None:
            return Error(-32602, "no answer")
        if not question.reached:
            self.world.answered(question, content_of(answer))
        return {"resultType": "complete", **text(question.name)}

    def _shown(self, job: Job) -> dict[str, Any]:
        brings: dict[str, Any] = {"ttlMs": job.ttl_ms}
        payload = self.payload(job) if has_ended(job) else None
        if job.status == "completed":
            assert isinstance(payload, dict)
            brings["result"] = {"resultType": "complete", **payload}
        elif job.status == "failed":
            assert isinstance(payload, Error)
            brings["error"] = {"code": payload.code, "message": payload.message}
        elif job.status == "input_required":
            brings["inputRequests"] = {one.key: elicitation(one.name) for one in job.questions if one.is_open}
        return seen_as(job.name, job.status, **brings)

    def _get(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        return NOBODYS if job is None else self._shown(job)

    def _cancel(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        if job is None:
            return NOBODYS
        if not has_ended(job):
            self.end(job, "cancelled")
        return ACK

    def _update(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        if job is None:
            return NOBODYS
        for key, answer in seen.params["inputResponses"].items():
            for question in job.questions:
                if question.key == key:
                    self.world.answered(question, content_of(answer))
        self._push(job)
        return ACK

    def _listen(self, seen: Seen) -> Scriptable:
        stream = Stream()
        asked = seen.params.get("notifications", {})
        acknowledged = {
            "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": asked, "_meta": {_SUBSCRIPTION: seen.id}},
        }  # fmt: skip
        self.soon(stream.send(acknowledged))
        for job in self.world.jobs:
            if job.name in asked.get("taskIds", ()) and not job.gone:
                self._push_to(stream, seen, job)
        self._listeners[stream] = seen
        return stream

    def of_this_api(self, seen: Seen) -> None:
        """Hold that a request is of the server's API alone."""
        hold(seen.session is None, "a session reaches the new server:", seen.method)
        hold(
            seen.method not in {"initialize", "tasks/result", "tasks/list", "notifications/initialized"},
            "a method of the old API reaches the new server:", seen.method,
        )  # fmt: skip
        if isinstance(seen.message, dict) and isinstance(seen.params, dict):
            hold("task" not in seen.params, "a key of the old API reaches the new server:", said(seen))
