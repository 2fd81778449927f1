"""A small server on standard input and output, of either era: `python stdio_server.py legacy|modern`.

Tools: `pid`, `env` (an environment variable), `cwd`, `slow` (answers after the next message), `ask` (a
question in the middle, once), `log` (a line on standard error), `garbage` (lines that are no message),
`large`, `progress`, `crash`, `close` (its output) and `hang`. A legacy one also runs `job` as a task: its
result asks a question. What it was sent besides answered requests it tells by `heard`.
"""

import json
import os
import sys
import time
from pathlib import Path

LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"
TOOLS = (
    "pid",
    "env",
    "cwd",
    "slow",
    "ask",
    "log",
    "garbage",
    "large",
    "progress",
    "crash",
    "close",
    "hang",
    "heard",
)
HEARD: list = []
HELD: list = []
ASKED: list = []
DONE: list = []
STATUS = {"status": "input_required"}


def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": str(value)}]}


def result(message, value):
    if MODE == "modern":
        value = {"resultType": "complete", **value}
    say(id=message["id"], result=value)


def handshake(message):
    tasks = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    info = {"name": f"scripted {os.getpid()}", "version": "1"}
    capabilities = {"tools": {}, "tasks": tasks}
    result(message, {"protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": info})


def discover(message):
    result(message, {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "ttlMs": 0})


def tools(message):
    listed = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
    if MODE != "modern":
        job = {"name": "job", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
        listed.append(job)
    more = {"ttlMs": 0, "cacheScope": "private"} if MODE == "modern" else {}
    result(message, {"tools": listed, **more})


def task():
    stamp = "2026-01-01T00:00:00Z"
    return {
        "taskId": f"task-of-{os.getpid()}-0000-0000", "createdAt": stamp, "lastUpdatedAt": stamp,
        "ttl": None, "pollInterval": 50, **STATUS,
    }  # fmt: skip


def question(message, **meta):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = {"message": "who?", "requestedSchema": schema, **({"_meta": meta} if meta else {})}
    ASKED.append(message)
    if len(ASKED) == 1:
        say(id="q1", method="elicitation/create", params=params)


def call(message):
    name, arguments = message["params"]["name"], message["params"].get("arguments", {})
    match name:
        case "job":
            say(id=message["id"], result={"task": task()})
        case "pid":
            result(message, text(os.getpid()))
        case "env":
            result(message, text(os.environ.get(arguments["name"])))
        case "cwd":
            result(message, text(Path.cwd()))
        case "slow":
            HELD.append(message)
        case "ask":
            question(message)
        case "log":
            sys.stderr.write(arguments["line"] + "\n")
            sys.stderr.flush()
            result(message, text("logged"))
        case "garbage":
            sys.stdout.write("Starting up...\n\n[1, 2]\n")
            result(message, text("still here"))
        case "large":
            result(message, text("x" * arguments["bytes"]))
        case "progress":
            token = message["params"]["_meta"]["progressToken"]
            say(method="notifications/progress", params={"progressToken": token, "progress": 1})
            result(message, text("done"))
        case "crash":
            os._exit(3)
        case "close":
            os.close(1)
            time.sleep(60)
        case "hang":
            HEARD.append(message)
        case "heard":
            result(message, text(json.dumps(HEARD)))


def take(message):
    if "method" not in message:
        STATUS["status"] = "completed"
        for waiting in ASKED:
            result(waiting, text(message["result"]["content"]["name"]))
        DONE.append(message)
        return
    if "id" not in message:
        HEARD.append(message)
        return
    held = list(HELD)
    HELD.clear()
    for one in held:
        result(one, text("at last"))
    match message["method"]:
        case "initialize" if MODE != "modern":
            handshake(message)
        case "server/discover" if MODE == "modern":
            discover(message)
        case "tools/list":
            tools(message)
        case "tools/call":
            call(message)
        case "ping":
            result(message, {})
        case "tasks/get" if message["params"]["taskId"] != task()["taskId"]:
            say(id=message["id"], error={"code": -32602, "message": "no such task"})
        case "tasks/get":
            result(message, task())
        case "tasks/result" if DONE:
            result(message, text(DONE[0]["result"]["content"]["name"]))
        case "tasks/result":
            related = {f"{META}related-task": {"taskId": message["params"]["taskId"]}}
            question(message, **related)
        case "subscriptions/listen":
            meta = {f"{META}subscriptionId": message["id"]}
            notifications = message["params"]["notifications"]
            params = {"_meta": meta, "notifications": notifications}
            say(method="notifications/subscriptions/acknowledged", params=params)
            say(method="notifications/tools/list_changed", params={"_meta": meta})
        case _ if MODE != "silent":
            say(id=message["id"], error={"code": -32601, "message": "Method not found"})


MODE = sys.argv[1]

if __name__ == "__main__":
    for line in sys.stdin:
        take(json.loads(line))
