"""A task is held while it runs, so that one worker runs it, and one that died is found out."""

import asyncio
import threading

import pytest

from chat.summaries.task_lock import held
from sessions_app.errors import StorageFull
from tests.unit.chat.summaries.house import Queue

TASK = "chat.tasks.summarize"


class WatchedQueue(Queue):
    """A queue that says when a hold was renewed, and may fail at it."""

    def __init__(self, loop, *, fails=False):
        super().__init__()
        self._loop, self._fails = loop, fails
        self.renewed = asyncio.Semaphore(0)

    def renew(self, function, session_id):
        super().renew(function, session_id)
        self._loop.call_soon_threadsafe(self.renewed.release)
        if self._fails:
            raise StorageFull("full")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_hold_is_renewed_until_the_task_has_ended(fails, monkeypatch):
    monkeypatch.setattr("chat.summaries.task_lock.RENEWED_SECONDS", 0.001)
    queue = WatchedQueue(asyncio.get_running_loop(), fails=fails)

    async with held(queue, TASK, "a") as is_ours:
        assert is_ours
        assert queue.held == {"a"}
        for _ in range(3):
            await queue.renewed.acquire()

    assert queue.held == set()


async def test_a_task_that_is_held_elsewhere_stays_held_there():
    queue = Queue()
    queue.held.add("a")

    async with held(queue, TASK, "a") as is_ours:
        assert not is_ours

    assert queue.held == {"a"}


async def test_a_hold_that_cannot_be_released_is_no_reason_to_fail(caplog):
    class Queueless(Queue):
        def release(self, function, session_id):
            assert threading.current_thread() is not threading.main_thread()
            raise StorageFull("full")

    async with held(Queueless(), TASK, "a") as is_ours:
        assert is_ours

    assert "not released" in caplog.text


async def test_a_task_that_is_cancelled_is_held_no_more():
    queue = Queue()
    entered = asyncio.Event()

    async def work():
        async with held(queue, TASK, "a"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert queue.held == set()
