"""Runs tasks in the background worker; they are queued by their dotted names.

A task gets a name only, and reads everything else anew.
"""

import asyncio

from chat.summaries.service import SummaryService
from mochi_project.app import service
from mochi_project.background.stopping import is_stopping
from mochi_project.background.task_loop import TaskLoop
from mochi_project.telemetry import Telemetry

task_loop = TaskLoop()


def summarize(session_id: str) -> str:
    """Make the summary of a session that is due; return the outcome in a few words."""
    return task_loop.run(_summarize(session_id))


async def _summarize(session_id: str) -> str:
    if is_stopping():
        await asyncio.to_thread(service(SummaryService).put_off, session_id)
        return "put off"
    try:
        return await service(SummaryService).run_due(session_id)
    finally:
        await service(Telemetry).flush()  # the process may end with its next task
