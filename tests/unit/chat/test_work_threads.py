"""Blocking work of turns: where it runs, what comes back, what a cancellation does to it."""

import asyncio
import contextvars
import threading
from functools import partial

import pytest

from chat.work_threads import WorkThreads, run_to_end
from sessions_app.deadline import Deadline
from sessions_app.store.locks import FileLocks

SAID = contextvars.ContextVar("said", default="nothing")


@pytest.fixture
def others():
    """Return the threads that other tests left."""
    return set(threading.enumerate())


@pytest.fixture
async def threads(others):
    made = WorkThreads(count=2)
    yield made
    await asyncio.to_thread(made.close, Deadline())


def serving(others):
    return [each for each in set(threading.enumerate()) - others if "turn-work-" in each.name]


def fail():
    raise OSError("the disk is gone")


async def test_work_runs_in_a_thread_of_its_own_kind_with_the_callers_context(threads):
    SAID.set("hello")

    name, said = await threads.run(lambda: (threading.current_thread().name, SAID.get()))

    assert name.startswith("turn-work-")
    assert said == "hello"


async def test_what_the_work_raises_reaches_whoever_waits(threads):
    with pytest.raises(OSError, match="the disk is gone"):
        await threads.run(fail)
    assert await threads.run(lambda: 1) == 1


async def test_however_much_work_there_is_the_threads_stay_the_same(threads):
    seen = set(await asyncio.gather(*[threads.run(threading.get_ident) for _ in range(100)]))

    assert 1 <= len(seen) <= 2
    assert threading.get_ident() not in seen


async def test_each_piece_of_work_is_done_once_whether_threads_wait_for_it_or_not(threads):
    done = []
    for burst in (1, 2, 3, 50):
        works = [partial(done.append, (burst, number)) for number in range(burst)]
        await asyncio.gather(*map(threads.run, works))

    assert sorted(done) == [(burst, number) for burst in (1, 2, 3, 50) for number in range(burst)]


async def test_work_that_was_given_up_before_its_turn_does_not_run(threads):
    go_on, ran = threading.Event(), []
    busy = [threads.run(go_on.wait) for _ in range(2)]
    given_up = threads.run(lambda: ran.append("given up"))
    given_up.cancel()
    await asyncio.sleep(0)  # the library tells what waits for a thread in the loop's next turn
    go_on.set()

    await asyncio.gather(*busy)
    await asyncio.gather(threads.run(lambda: None), threads.run(lambda: None))

    assert ran == []


async def test_a_cancelled_wait_goes_on_to_the_works_end(threads):
    began, go_on, ran = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    def work():
        loop.call_soon_threadsafe(began.set)
        go_on.wait()
        ran.append("to the end")

    waiting = asyncio.create_task(run_to_end(work, threads.run))
    await began.wait()
    for _ in range(3):
        waiting.cancel()
        await asyncio.sleep(0)
    assert not waiting.done()
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ran == ["to the end"]


async def test_a_cancelled_wait_tells_of_the_works_failure(threads):
    began, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work():
        loop.call_soon_threadsafe(began.set)
        go_on.wait()
        fail()

    waiting = asyncio.create_task(run_to_end(work, threads.run))
    await began.wait()
    waiting.cancel()
    go_on.set()

    with pytest.raises(OSError, match="the disk is gone"):
        await waiting


async def test_closed_threads_end_after_the_work_that_waits_and_new_work_starts_new_ones(
    threads, others
):
    ran = []
    done = [threads.run(lambda: ran.append(1)) for _ in range(10)]

    await asyncio.to_thread(threads.close, Deadline())

    assert len(ran) == 10
    await asyncio.gather(*done)
    assert not serving(others)
    assert await threads.run(lambda: "again") == "again"


def test_work_that_outlives_its_loop_ends_quietly():
    threads, go_on, ran = WorkThreads(count=1), threading.Event(), []

    def work():
        go_on.wait()
        ran.append(1)

    async def begin():
        threads.run(work)

    asyncio.run(begin())
    go_on.set()
    threads.close(Deadline())
    assert ran == [1]


async def test_where_the_system_gives_too_few_threads_the_work_is_done_by_those(monkeypatch):
    begin, begun = threading.Thread.start, []

    def start(thread):
        if len(begun) == 1:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        begin(thread)

    threads = WorkThreads(count=3)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            await threads.run(lambda: None)
    try:
        assert await asyncio.wait_for(threads.run(lambda: "done"), 5) == "done"
    finally:
        await asyncio.to_thread(threads.close, Deadline())


async def test_work_that_waits_for_a_lock_holds_up_no_other(threads, tmp_path):
    locks = FileLocks(tmp_path)

    def wait():
        with locks.held("contended", timeout_seconds=30):
            return threading.get_ident()

    with FileLocks(tmp_path).held("contended", timeout_seconds=1):  # as another process does
        waiting = [threads.run(wait) for _ in range(20)]
        others = await asyncio.gather(*[threads.run(threading.get_ident) for _ in range(20)])
        assert not any(work.done() for work in waiting)
    assert len(set(await asyncio.gather(*waiting))) > len(set(others))
    await asyncio.to_thread(locks.close)


async def test_after_the_waiting_there_are_as_many_threads_as_before(threads, others, tmp_path):
    locks = FileLocks(tmp_path)

    def wait():
        with locks.held("contended", timeout_seconds=30):
            return True

    with FileLocks(tmp_path).held("contended", timeout_seconds=1):
        waiting = [threads.run(wait) for _ in range(8)]
        await threads.run(lambda: None)
    await asyncio.gather(*waiting)
    while len(serving(others)) > 2:
        await asyncio.sleep(0)
    assert await threads.run(lambda: 1) == 1
    await asyncio.to_thread(locks.close)
