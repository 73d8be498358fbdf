import asyncio
import threading

import pytest

from chat.work_threads import run_to_end
from sessions_app.shielding import to_the_end


async def test_what_was_begun_ends_however_often_the_waiting_is_cancelled():
    go_on = asyncio.Event()
    task = asyncio.create_task(go_on.wait())
    waiting = asyncio.create_task(to_the_end(task))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert task.result() is True


async def test_without_a_cancellation_the_result_or_the_error_comes_back():
    async def fail():
        raise OSError("no")

    assert await to_the_end(asyncio.create_task(asyncio.sleep(0, "done"))) == "done"
    with pytest.raises(OSError, match="no"):
        await to_the_end(asyncio.create_task(fail()))


async def test_blocking_work_that_fails_while_it_is_cancelled_says_so():

    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work():
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(10)
        raise OSError("disk")

    waiting = asyncio.create_task(run_to_end(work))
    await begun.wait()
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(OSError, match="disk"):
        await waiting
