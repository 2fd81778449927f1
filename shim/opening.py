"""What the shim opens to run: addresses, the ledger, the audit log, the terms on which requests are taken.

All that has to be closed again is, by the exit stack.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web

from shim.audit.chain import PURPOSE, Signer
from shim.audit.events import AuditSink
from shim.audit.metrics import Metrics
from shim.audit.sink import FileSink, NullSink
from shim.callers.keys import Keys
from shim.callers.provider import Providers
from shim.callers.resolve import build_resolver
from shim.clock import Clock
from shim.config import Config
from shim.fronts.guard import Guard
from shim.fronts.metadata import described_at
from shim.fronts.sunset import Sunset
from shim.fronts.terms import Terms
from shim.hub.dialect import Dialect
from shim.ledger.payloads import KEY as KEPT_BYTES
from shim.ledger.payloads import InMemory, Payloads
from shim.ledger.sqlite import SqliteLedger
from shim.standing import Stand, all_judged

_MARKS = "question"
"""What the key is for by which a question without its text is known again."""


class StartError(RuntimeError):
    """The shim cannot start; the message says why and what to do."""


async def listen(
    stack: contextlib.AsyncExitStack, server: web.Server, host: str, port: int, config: Config,
    socket: Path | None = None,
) -> str:  # fmt: skip
    """Serve on an address, or on a Unix socket, and give the URL. Raises StartError."""
    runner = web.ServerRunner(server, shutdown_timeout=config.limits.shutdown_ms / 1000)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    if socket is not None:
        await web.UnixSite(runner, str(socket)).start()
        return "http://localhost"
    site = web.TCPSite(runner, host, port, backlog=1024)
    try:
        await site.start()
    except OSError as exc:
        why = os.strerror(exc.errno) if exc.errno else exc.strerror
        raise StartError(f"cannot listen on {host}:{port}: {why}; choose another address or port") from exc
    bound = runner.addresses[0]
    return f"http://{bound[0]}:{bound[1]}"


async def open_ledger(
    stack: contextlib.AsyncExitStack, config: Config, clock: Clock, metrics: Metrics, sink: AuditSink,
    keys: Keys,
) -> SqliteLedger:  # fmt: skip
    """Open the ledger. Raises LedgerError."""
    ledger = SqliteLedger(
        config.ledger.path, clock, synchronous=config.ledger.synchronous,
        lock_wait_ms=config.ledger.lock_wait_ms, cache_rows=config.ledger.cache_rows,
        on_batch=metrics.commit_batch.observe, on_failure=metrics.ledger_failed.inc,
        payloads=payloads_of(config, sink, keys),
    )  # fmt: skip
    await ledger.open()
    stack.push_async_callback(ledger.close)
    return ledger


def terms_of(
    config: Config, *, keys: Keys, providers: Providers, stands: Mapping[str, Stand],
    dialects: Mapping[str, Dialect], clock: Clock,
) -> Terms:  # fmt: skip
    """Give the terms that a config sets. Raises ConfigError."""
    resolver = build_resolver(
        config.identity, keys, providers, judged=all_judged(stands), described_at=described_at(config)
    )
    return Terms(Guard(config), resolver, Sunset(config, dialects, clock))


def payloads_of(config: Config, sink: AuditSink, keys: Keys | None = None) -> Payloads:
    """Give where the ledger keeps what tasks carry (DUR-8); without keys for who asks no questions."""
    if config.ledger.store_results:
        return Payloads()
    return InMemory(
        lambda: config.limits.kept_bytes,
        lambda: sink.reached.update([KEPT_BYTES]),
        secret=keys.derived(_MARKS)[0] if keys is not None else None,
    )


def open_providers(
    stack: contextlib.AsyncExitStack, clock: Clock, sink: AuditSink, metrics: Metrics
) -> Providers:
    """Make the way to identity providers; what is under way on it ends before the audit log does."""
    providers = Providers(clock, sink, metrics.provider)
    stack.push_async_callback(providers.close)
    return providers


def open_sink(stack: contextlib.AsyncExitStack, config: Config, instance: str) -> FileSink | NullSink:
    """Open the audit log; it is closed last. Raises StartError, KeyFileError."""
    audit = config.audit
    if audit.path is None:
        return NullSink()
    signer = None
    if audit.key_file is not None:
        signer = Signer(Keys.load(audit.key_file, "audit.key_file").derived(PURPOSE)[0])
    try:
        sink = FileSink(
            audit.path, instance=instance, max_bytes=audit.max_bytes, daily=audit.daily, queue=audit.queue,
            signer=signer,
        )  # fmt: skip
    except OSError as exc:
        raise StartError(f"audit.path: {audit.path} cannot be opened: {exc.strerror}") from exc
    stack.push_async_callback(asyncio.to_thread, sink.close)
    return sink
