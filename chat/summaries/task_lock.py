"""Holds a task while this worker runs it, so that no other worker does."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from chat.storage.task_queue import TaskQueue
from sessions_app.errors import MochiError

logger = logging.getLogger(__name__)

RENEWED_SECONDS = 5.0
"""The time between two renewals of a hold, which ends by itself after several of them."""


@asynccontextmanager
async def held(queue: TaskQueue, function: str, argument: str) -> AsyncGenerator[bool, None]:
    """Hold a call of a task, and yield whether it may run: not while another worker runs it."""
    if not await asyncio.to_thread(queue.hold, function, argument):
        yield False
        return
    renewing = asyncio.create_task(_keep(queue, function, argument))
    try:
        yield True
    finally:
        renewing.cancel()
        await asyncio.wait({renewing})
        await asyncio.to_thread(_release, queue, function, argument)


async def _keep(queue: TaskQueue, function: str, argument: str) -> None:
    while True:
        await asyncio.sleep(RENEWED_SECONDS)
        try:
            await asyncio.to_thread(queue.renew, function, argument)
        except MochiError as error:  # at worst another worker does the same, and one result is kept
            logger.warning("a task is not held any more", extra={"code": error.code})


def _release(queue: TaskQueue, function: str, argument: str) -> None:
    try:
        queue.release(function, argument)
    except MochiError as error:  # it ends by itself, and the call finds nothing to do
        logger.warning("a task's hold was not released", extra={"code": error.code})
