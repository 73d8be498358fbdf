"""Runs the blocking work of turns in threads that are there already (docs/decisions/0022)."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

from sessions_app.deadline import CLOSE_SECONDS, Deadline
from sessions_app.shielding import to_the_end
from sessions_app.store.locks import WAITING

Result = TypeVar("Result")

FILE_THREADS = 4
OBJECT_THREADS = 24
"""Threads for the sessions' files, each of which is written in a millisecond or two, and for their
objects, which take as long as the way to the store."""

MOST_REPLACEMENTS = 128
"""Threads that wait for a lock at the same time and are replaced; further ones hold others up."""


class InThread(Protocol):
    """Runs blocking work in another thread, as ``asyncio.to_thread`` does without arguments."""

    def __call__(self, work: Callable[[], Result], /) -> Awaitable[Result]:
        """Return what the work returns, or raise what it raises."""
        ...


class WorkThreads:
    """A few threads for the work that every turn waits for: its session's file or object.

    There are always as many threads as ``count``, however many turns run; one that waits for the
    lock of a session is replaced for as long.

    Args:
        count: How many; they are started with the first work.
    """

    def __init__(self, count: int = FILE_THREADS) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._replaced = 0

    def run(self, work: Callable[[], Result], /) -> "asyncio.Future[Result]":
        """Run the work in a thread, with the caller's context variables.

        A future that is cancelled before a thread came to it is not run.
        """
        done: Future[Result] = Future()
        if not self._threads:
            self._start()
        self._waiting.put(partial(_do, done, contextvars.copy_context(), work))
        return asyncio.wrap_future(done)

    def close(self, deadline: Deadline) -> None:
        """Let the threads end after the work that waits; the next work starts new ones.

        A thread that is stuck in its work is left to the end of the process.
        """
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join(deadline.within(threading.TIMEOUT_MAX, CLOSE_SECONDS))
        self._threads = []

    def _start(self) -> None:
        for number in range(self._count):
            # One by one: where the system gives only some, work goes to those that there are.
            self._threads.append(self._started(f"turn-work-{number}"))

    def _started(self, name: str) -> threading.Thread:
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        thread.start()
        return thread

    @contextmanager
    def _replacing(self) -> Iterator[None]:
        """Let another thread serve while this one waits; afterwards, one of them ends."""
        is_replaced = self._replace()
        try:
            yield
        finally:
            if is_replaced:
                with self._lock:
                    self._replaced -= 1
                self._waiting.put(None)

    def _replace(self) -> bool:
        with self._lock:
            if self._replaced >= MOST_REPLACEMENTS:
                return False
            try:
                self._started("turn-work-replacement")
            except RuntimeError:  # the system gives no more threads
                return False
            self._replaced += 1
            return True

    def _serve(self) -> None:
        WAITING.entered = self._replacing
        while (do := self._waiting.get()) is not None:
            do()
            del do  # nothing of it stays until the next one comes


def _do(done: Future[Result], context: contextvars.Context, work: Callable[[], Result]) -> None:
    if done.set_running_or_notify_cancel():
        try:
            done.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - raised where the work is awaited
            done.set_exception(error)


async def run_to_end(work: Callable[[], Result], in_thread: InThread = asyncio.to_thread) -> Result:
    """Run blocking work in a thread; when cancelled, wait for its end before going on being so.

    Raises:
        BaseException: What the work raises, also when it was cancelled meanwhile.
    """
    task = asyncio.ensure_future(in_thread(work))
    try:
        return await to_the_end(task)
    except asyncio.CancelledError:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error from None
        raise
