"""Writes the summaries of one task in sequence, and postpones those that time does not allow."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

ENOUGH_SECONDS = 240.0
"""After so long no further summary is begun: one takes 300 seconds at most, a task may take 600."""


async def run_in_turn(
    session_ids: Sequence[str],
    run: Callable[[str], Awaitable[str]],
    put_off: Callable[..., object],
    *,
    is_stopping: Callable[[], bool],
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Make summaries one after another; return what came of them.

    Args:
        session_ids: The sessions.
        run: Makes the summary of one of them, and returns what came of it.
        put_off: Is called with the sessions that are left, also after an error. Blocks.
        is_stopping: Returns whether no further one is to be begun.
        now: A clock.
    """
    outcomes: list[str] = []
    left = deque(session_ids)
    began = now()
    try:
        while left and not is_stopping() and now() - began <= ENOUGH_SECONDS:
            outcomes.append(await run(left.popleft()))
    finally:
        if left:
            await asyncio.to_thread(put_off, *left)
    return ", ".join([*outcomes, *(["put off"] * len(left))])
