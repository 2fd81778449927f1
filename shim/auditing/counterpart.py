"""What stands in the new API for a feature or method of the old one."""

NONE = "none"

COUNTERPARTS = {
    "tasks/list": f"{NONE}: clients keep the ids of their tasks themselves",
    "ping": f"{NONE}: nothing to keep open",
    "session": f"{NONE}: each request stands alone and says who asks",
    "no session": "each request says its version and capabilities in _meta",
    "task param": "the server decides which call becomes a task; the client declares the extension",
    "server request": "the task or call asks (input_required), the client answers with tasks/update or again",
    "tasks/create": "tools/call; the server decides",
    "tasks/get": "tasks/get, which has the result too",
    "tasks/status": "tasks/get, which has the result too",
    "tasks/result": "tasks/get once the task has ended",
    "tasks/cancel": "tasks/cancel, answered with an acknowledgement only",
    "tasks/inputResponse": "tasks/update",
    "initialize": "server/discover",
    "logging/setLevel": "the level in _meta of each request",
    "resources/subscribe": "subscriptions/listen",
    "resources/unsubscribe": "end the subscriptions/listen stream",
    "GET": "subscriptions/listen",
    "DELETE": f"{NONE}: there is no session to end",
}


def counterpart(name: str) -> str | None:
    """Say what takes its place; begins with `none` where nothing does. None for what is the same in both."""
    return COUNTERPARTS.get(name)
