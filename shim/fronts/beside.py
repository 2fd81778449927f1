"""What the shim itself says on a legacy session's GET stream, between what its server says (PROMOTE-2).

Of tasks that live in the shim the server knows nothing: their questions and changes go over the stream that
the client has open there. These messages carry no event id, since those of the stream are the server's.
"""

import structlog

from shim.config import Config
from shim.fronts.hosted.asking import Asking
from shim.fronts.hosted.task_news import Had, TaskNews
from shim.fronts.reply import Reply
from shim.hub.dialect import Dialect
from shim.ledger.records import SessionRow
from shim.tasks.service import Tasks

log = structlog.get_logger("shim")


class LocalNews:
    """Tells sessions of the tasks that the shim runs for them."""

    def __init__(self, config: Config, tasks: Tasks, asking: Asking) -> None:
        self._config = config
        self._tasks = tasks
        self._asking = asking
        self._streams = asking.streams

    @property
    def has_any(self) -> bool:
        """True where the shim runs tools as tasks at all."""
        return bool(self._config.tasks.promote)

    async def tell(self, session: SessionRow, dialect: Dialect, reply: Reply) -> None:
        """Tell until the stream ends; a second stream of one session is told nothing."""
        if self._streams.is_open(session.session_id):
            return

        async def ask(message: bytes, _event_id: str) -> None:
            await reply.event(message)

        with self._streams.opening(session.session_id) as stream:
            news = TaskNews(self._config, self._tasks, self._asking, session, dialect, stream)
            had: Had = {}
            try:
                while True:
                    for row in await news.open_tasks():
                        if row.local:
                            news.follow(row)
                    await news.tell(reply.event, ask, had)
                    await stream.wake.wait()
                    stream.wake.clear()
            except ConnectionError:  # the client has left, which ends the stream
                return
            except Exception:
                log.exception("a session hears no more of the shim's tasks", session=session.session_id)
            finally:
                news.close()
