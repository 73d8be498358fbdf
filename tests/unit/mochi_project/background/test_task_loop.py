"""Tasks share an event loop, with its threads and connections; one that fails leaves it behind."""

import asyncio
from collections.abc import Iterator

import pytest

from mochi_project.background.task_loop import TaskLoop


@pytest.fixture
def loop() -> Iterator[TaskLoop]:
    made = TaskLoop()
    yield made
    made.close()


async def running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_one_task_after_another_runs_on_the_same_loop(loop: TaskLoop) -> None:
    assert loop.run(running_loop()) is loop.run(running_loop())


def test_a_task_that_fails_takes_along_what_it_started_and_the_next_has_another_loop(
    loop: TaskLoop,
) -> None:
    ended = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def fail() -> None:
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        raise TimeoutError(waiting.get_name())

    first = loop.run(running_loop())
    with pytest.raises(TimeoutError):
        loop.run(fail())

    assert ended == ["cancelled"]
    assert first.is_closed()
    assert loop.run(running_loop()) is not first
