"""A server of the four-state API, on which the old one's sessions and streams are found again."""

from typing import Any, ClassVar

from tests.fuzz.conversation.model import Job, hold
from tests.fuzz.conversation.old_peer import OldPeer
from tests.scripted import Scriptable, Seen, text

_STATES = {
    "working": "running",
    "input_required": "running",
    "completed": "done",
    "failed": "error",
    "cancelled": "error",
}


class FourPeer(OldPeer):
    """Speaks `create-status`."""

    dialect = "create-status"
    names_tasks = False
    tool_support: ClassVar[dict[str, str]] = {"plain": "forbidden", "wonder": "forbidden"}

    def script(self) -> None:
        """Let the scripted server answer off the model."""
        super().script()
        self.on("tasks/create", self._create)
        self.on("tasks/status", self._get)
        self.on("tasks/inputResponse", self._by_method)

    def _announce(self, job: Job) -> None:
        """Tell nobody: there is no notification."""

    def _create(self, seen: Seen) -> Scriptable:
        params = seen.params if "name" in seen.params else seen.params["params"]
        job = self.made(seen, params)
        return {**self._shown(job), "status": "pending"}

    async def _call(self, seen: Seen) -> Scriptable:
        hold("task" not in seen.params, "a parameter of another API reaches the four-state server")
        return self._wonder(seen) if seen.params["name"] == "wonder" else text("plain")

    def _by_method(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        hold(job is not None, "an answer by the method to no task:", seen.params)
        return {}

    def _shown(self, job: Job) -> dict[str, Any]:
        shown = {
            "taskId": job.name, "status": _STATES[job.status], "createdAt": "2026-01-01T00:00:00Z",
            "ttl": job.ttl_ms,
        }  # fmt: skip
        if job.status in {"failed", "cancelled"}:
            shown["statusMessage"] = job.status
        return shown

    def of_this_api(self, seen: Seen) -> None:
        """Hold that a request is of the server's API alone, and on a session of whose it is."""
        super().of_this_api(seen)
        hold(seen.method != "tasks/get", "a method of another API reaches the four-state server")
