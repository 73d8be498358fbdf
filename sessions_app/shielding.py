"""Waits for tasks that must finish, however often the wait is cancelled."""

import asyncio
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")


async def to_the_end(task: "asyncio.Future[Result]") -> Result:
    """Await a task to its end, as a shield; a cancellation goes on once the task has finished.

    Raises:
        BaseException: What the task raised, unless the waiting was cancelled.
    """
    cancelled = False
    while not task.done():
        # Not `asyncio.wait`, which takes some 25 calls, nor `await task`, which would cancel it.
        ended: asyncio.Future[None] = task.get_loop().create_future()
        task.add_done_callback(partial(_tell, ended))
        try:
            await ended
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        if not task.cancelled():
            task.exception()  # seen, in favour of the cancellation
        raise asyncio.CancelledError
    return task.result()


def _tell(ended: "asyncio.Future[None]", _: "asyncio.Future[Any]") -> None:
    if not ended.done():
        ended.set_result(None)
