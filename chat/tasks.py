"""Runs tasks in the background worker; they are queued by their dotted names.

A task gets a name only, and reads everything else anew.
"""

import asyncio
import logging
import threading

from chat.notices.courier import Courier
from chat.notices.notice import Notice
from chat.storage.task_queue import owner_and_session
from chat.summaries.service import SummaryService
from mochi_project.app import service
from mochi_project.background.stopping import is_stopping
from mochi_project.background.task_loop import TaskLoop
from mochi_project.principal import acting_for
from mochi_project.telemetry import Telemetry

logger = logging.getLogger(__name__)

MOST_NOTICES = 32
"""The notices that are sent at once: each takes a thread, for some seconds if nobody answers."""
STOPPING_SECONDS = 0.5

task_loop = TaskLoop()
_places = threading.BoundedSemaphore(MOST_NOTICES)


def summarize(argument: str) -> str:
    """Make the summary of a session that is due; return the outcome in a few words."""
    return task_loop.run(_summarize(*owner_and_session(argument)))


async def _summarize(owner: str, session_id: str) -> str:
    with acting_for(owner):
        if is_stopping():
            await asyncio.to_thread(service(SummaryService).put_off, session_id)
            return "put off"
        try:
            return await service(SummaryService).run_due(session_id)
        finally:
            await service(Telemetry).flush()  # the process may end with its next task


def notify(argument: str) -> str:
    """Begin to send a notice, in a thread: other tasks wait for no receiver.

    The process does not end before its threads, which end soon when it stops.
    """
    notice = Notice.read(argument)
    if not _places.acquire(blocking=False):
        with acting_for(notice.owner):
            service(Courier).put_back(notice)
        return "put back: many are sent just now"
    threading.Thread(target=_send, args=(notice,), name="notice").start()
    return "begun"


def _send(notice: Notice) -> None:
    try:
        with acting_for(notice.owner):
            asyncio.run(_until_stopping(service(Courier), notice))
    except Exception:
        logger.exception("a notification was not sent", extra={"session_id": notice.session_id})
    finally:
        _places.release()


async def _until_stopping(courier: Courier, notice: Notice) -> None:
    sending = asyncio.create_task(courier.deliver(notice))
    while not sending.done():
        await asyncio.wait({sending}, timeout=STOPPING_SECONDS)
        if is_stopping() and sending.cancel():
            await asyncio.wait({sending})
            await asyncio.to_thread(courier.put_back, notice)
            return
    await sending
