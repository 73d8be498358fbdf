"""Runs tasks in the background worker; they are queued by their dotted names.

A task gets names only, and reads everything else anew.
"""

import asyncio

from mochi_project.wiring.services import get_services


def summarize(session_id: str) -> str:
    """Make the summary of a session that is due; return the outcome in a few words."""
    return asyncio.run(_summarize(session_id))


async def _summarize(session_id: str) -> str:
    services = get_services()
    try:
        return await services.summaries.run_due(session_id)
    finally:
        await services.models.aclose()  # its connections belong to this event loop
        await services.observers.flush()  # the process may end with its next task
