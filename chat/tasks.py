"""Runs tasks in the background worker; they are queued by their dotted names.

A task gets names only, and reads everything else anew.
"""

from chat.summaries.batch import run_in_turn
from mochi_project.background.stopping import is_stopping
from mochi_project.background.task_loop import TaskLoop
from mochi_project.wiring.services import get_services

_loop = TaskLoop()


def summarize(*session_ids: str) -> str:
    """Make the summaries of sessions that are due; return the outcomes in a few words."""
    return _loop.run(_summarize(session_ids))


async def _summarize(session_ids: tuple[str, ...]) -> str:
    services = get_services()
    summaries = services.summaries
    try:
        return await run_in_turn(
            session_ids, summaries.run_due, summaries.put_off, is_stopping=is_stopping
        )
    finally:
        await services.observers.flush()  # the process may end with its next task
