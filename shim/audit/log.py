"""The operator's log: for people on a terminal, JSON lines otherwise."""

import logging
import sys
from typing import Literal

import structlog
from aiohttp.http_exceptions import HttpProcessingError
from structlog.typing import EventDict

from shim.audit.printable import printable

_OURS = ("exception", "stack")
"""Members of many lines, which no peer has a say in."""
_READ_FIRST = ("timestamp", "level", "event")
_LONGEST = 4_000


def set_up(level: str, form: Literal["auto", "console", "json"]) -> None:
    """Set the process's log up, the libraries' messages included."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        _in_one_line,
    ]
    last: list[structlog.typing.Processor] = (
        _for_people()
        if console
        else [structlog.processors.format_exc_info, _event_first, structlog.processors.JSONRenderer()]
    )
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[
        structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last,
    ], foreign_pre_chain=shared))  # fmt: skip
    handler.addFilter(_without_quotes)
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)


def set_up_for_answer() -> None:
    """Set the log of a command up whose answer goes to standard output."""
    structlog.configure(
        processors=[*structlog.get_config()["processors"][:-1], *_for_people()],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def _for_people() -> list[structlog.typing.Processor]:
    """Lines with plain tracebacks: the default ones show local variables, and those may hold a token."""
    return [
        _fit_for_a_terminal,
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        ),
    ]


def _fit_for_a_terminal(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escape what servers and clients stated: written as it is, it could steer the reader's terminal."""
    for name, value in event.items():
        if isinstance(value, str) and name not in _OURS:
            event[name] = printable(value, _LONGEST)
    return event


def _event_first(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Begin a line with what is read first: when, how bad, what."""
    return {**{name: event[name] for name in _READ_FIRST if name in event}, **event}


def _in_one_line(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Say a fault without its traceback where that tells an operator nothing."""
    given = event.get("exc_info")
    fault = sys.exception() if given is True else given[1] if isinstance(given, tuple) else given
    if getattr(fault, "in_one_line", False):
        del event["exc_info"]
        event["error"] = str(fault)
    return event


def _without_quotes(record: logging.LogRecord) -> bool:
    """Take what a peer sent out of the HTTP parser's message: the broken header may be a credential."""
    fault = record.exc_info[1] if record.exc_info else None
    if isinstance(fault, HttpProcessingError):
        record.msg, record.args = "a request was refused that is no HTTP: %s", (type(fault).__name__,)
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True
