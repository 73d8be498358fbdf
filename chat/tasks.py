"""Runs tasks in the background worker; they are queued by their dotted names.

A task gets a name only, and reads everything else anew.
"""

import asyncio

from mochi_project.background.stopping import is_stopping
from mochi_project.background.task_loop import TaskLoop
from mochi_project.wiring.services import get_services

_loop = TaskLoop()


def summarize(session_id: str) -> str:
    """Make the summary of a session that is due; return the outcome in a few words."""
    return _loop.run(_summarize(session_id))


async def _summarize(session_id: str) -> str:
    services = get_services()
    if is_stopping():
        await asyncio.to_thread(services.summaries.put_off, session_id)
        return "put off"
    try:
        return await services.summaries.run_due(session_id)
    finally:
        await services.observers.flush()  # the process may end with its next task
