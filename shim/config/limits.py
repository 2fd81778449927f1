"""Settings of what may grow, and how far."""

from typing import Annotated

from pydantic import Field

from shim.config.section import Bytes, Count, Section, SomeMs


class Limits(Section):
    """Bounds of everything that can grow, each with the answer a client gets when it is reached."""

    body_bytes: Bytes = 4_194_304
    """Bytes of a request body; more is a 413 (VALIDATE)."""
    frame_bytes: Bytes = 4_194_304
    """Bytes of an upstream's answer or stream frame; more fails that request alone (SSE)."""
    header_bytes: Annotated[int, Field(ge=8192)] = 65_536
    """Bytes of a request's header field; more is a 400."""
    concurrent_requests: Count = 20_000
    """Requests under way at a time, open streams included; more is a 429 with Retry-After."""
    requests_per_caller: Count = 2000
    """Requests of one caller under way at a time, open streams and waiting tasks/result included; more is a
    429. Those that nothing tells apart count for themselves only."""
    polls_per_second: Count = 1000
    """Looks at single tasks, tasks/get and the like, of one caller in a second, on average; beyond that
    and poll_burst they are a 429."""
    poll_burst: Count = 10_000
    """Such looks that a caller may make at once when it made none for a while."""
    buffer_bytes: Bytes = 268_435_456
    """Bytes of all requests, upstream answers, questions of calls and kept or queued messages that are in
    memory at a time. At the limit a request is a 503, as is a call that asks something (it is ended
    upstream), an upstream's answer fails its request alone, what is kept for a repeated retry goes, the
    oldest kept stream cannot be taken up, and a subscription or session's stream that lags is
    disconnected."""
    sessions: Count = 20_000
    """Open sessions of all legacy clients; one that was unused for sessions.idle_ms and has no open task
    makes way for another, else that is a 503."""
    sessions_per_caller: Count = 256
    """Open sessions of one caller's legacy clients; one that was unused for sessions.idle_ms and has no
    open task makes way for another, else that is a 429."""
    open_tasks_per_caller: Count = 1000
    """Tasks of one caller that have not ended; more is a 429."""
    questions_per_task: Count = 64
    """Questions one task or call may ask; more are refused upstream (ML-INPUT, ML-MRTR)."""
    parked_calls_per_caller: Count = 32
    """Calls of one caller that wait for their client's answers; at the limit the call is ended upstream and
    the client gets a 429 (ML-MRTR)."""
    parked_calls: Count = 1000
    """Such calls in all; at the limit the call is ended upstream and the client gets a 503."""
    parked_ms: SomeMs = 300_000
    """Milliseconds such a call waits for the answers, and its requestState counts; then it is ended
    upstream."""
    streams_per_caller: Count = 64
    """Open subscriptions of one caller's modern clients; more is a 429 (ML-LISTEN)."""
    subscriptions_per_stream: Count = 1000
    """Tasks and resources that one subscription, or a legacy session of the shim's, may name; more is a
    -32602 (ML-LISTEN, LM-LOCAL)."""
    queue_per_stream: Count = 1000
    """Announcements that wait for the client of a subscription, or of a legacy session that the shim serves;
    with more it is disconnected (ML-LISTEN, LM-STREAM)."""
    replay_events: Count = 1000
    """Messages kept of one stream; of more the oldest are not sent again (LM-RESUME)."""
    replay_bytes: Bytes = 16_777_216
    """Bytes kept of all streams; at the limit the oldest stream cannot be taken up (LM-RESUME)."""
    slow_reader_ms: SomeMs = 30_000
    """Milliseconds a client may not read at all before it is disconnected."""
    kept_bytes: Bytes = 268_435_456
    """Bytes of results, questions and answers kept in memory where ledger.store_results is false. At the
    limit the oldest results make way, first those that a server can give again, and one that cannot be had
    any more is a -32603; a question is refused upstream, an answer to one is a 503 (DUR-8)."""
    slow_sender_ms: SomeMs = 60_000
    """Milliseconds for a request's body to come, then it is a 408; and for the first request of a
    connection, which is closed without one."""
    tools: Count = 10_000
    """Tools of one upstream that are looked at (ML-CREATE)."""
    pages: Count = 100
    """Pages of one upstream's tools/list that are read (ML-CREATE)."""
    shutdown_ms: SomeMs = 10_000
    """Milliseconds from SIGTERM to the exit at most."""
