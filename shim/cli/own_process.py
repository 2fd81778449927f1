"""What `serve` and `stdio` ask of their own process, whoever starts it."""

import asyncio
import contextlib
import errno
import os
import resource
from typing import Any

from shim.audit.notices import Notices
from shim.clock import SystemClock

_FILES = 65_536
"""Descriptors to have at least, if that may be: each stream and each connection to a server is one."""


def bound_process() -> None:
    """Leave no core dump, which would hold tokens (OWN-STORE), and have room for `limits` in descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # some systems have a bound that they do not tell
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def watch_descriptors(loop: asyncio.AbstractEventLoop) -> None:
    """Say once a minute that no connection can be taken for want of descriptors; asyncio says it always."""
    notices = Notices(SystemClock())

    def told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        fault = context.get("exception")
        if not isinstance(fault, OSError) or fault.errno not in {errno.EMFILE, errno.ENFILE}:
            loop.default_exception_handler(context)
            return
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        notices.warn(
            "connections cannot be taken: raise LimitNOFILE of the service, or ulimit -n",
            error=os.strerror(fault.errno), open_files=soft,
        )  # fmt: skip

    loop.set_exception_handler(told)
