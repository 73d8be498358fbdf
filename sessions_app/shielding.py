"""Waits for tasks that must finish, however often the wait is cancelled."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")


async def to_the_end(task: "asyncio.Future[Result]") -> Result:
    """Await a task with a shield; raise a cancellation only after the task has finished.

    Raises:
        BaseException: The error of the task, unless the wait was cancelled.
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
            task.exception()  # mark it as retrieved: the cancellation is raised instead
        raise asyncio.CancelledError
    return task.result()


async def thread_to_the_end(step: Callable[[], Result]) -> Result:
    """Run a step in a thread to its end, even if cancelled: its file must not be closed before."""
    return await to_the_end(asyncio.ensure_future(asyncio.to_thread(step)))


def _tell(ended: "asyncio.Future[None]", _: "asyncio.Future[Any]") -> None:
    if not ended.done():
        ended.set_result(None)
