"""What `serve` and `stdio` ask of their own process, whoever starts it."""

import contextlib
import resource

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
