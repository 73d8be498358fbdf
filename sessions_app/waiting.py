"""Waiting for what must not be left half-way, however often the waiting is cancelled."""

import asyncio
from typing import TypeVar

Result = TypeVar("Result")


async def to_the_end(task: "asyncio.Task[Result]") -> Result:
    """Await a task to its end; if that was cancelled meanwhile, the cancellation goes on then.

    Raises:
        BaseException: What the task raised, unless the waiting was cancelled.
    """
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        if not task.cancelled():
            task.exception()  # seen, in favour of the cancellation
        raise asyncio.CancelledError
    return task.result()
