"""Blocking work that must not be left half-way."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sessions_app.waiting import to_the_end

Result = TypeVar("Result")


async def run_to_end(work: Callable[[], Result]) -> Result:
    """Run blocking work in a thread; when cancelled, wait for its end before going on being so.

    Raises:
        BaseException: What the work raises, also when it was cancelled meanwhile.
    """
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await to_the_end(task)
    except asyncio.CancelledError:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error from None
        raise
