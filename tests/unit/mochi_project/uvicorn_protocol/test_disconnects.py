"""Clients that leave at once are told of a few at a time, in order, and none is forgotten."""

import asyncio
from functools import partial

import pytest

from mochi_project.uvicorn_protocol.disconnects import AT_ONCE, Disconnects


async def steps_of(told):
    """Return how many were told of in each of the event loop's next steps."""
    counts = []
    while not counts or counts[-1]:
        before = len(told)
        await asyncio.sleep(0)
        counts.append(len(told) - before)
    return counts[:-1]


async def test_a_client_that_leaves_alone_is_told_of_at_once():
    disconnects, told = Disconnects(), []
    disconnects.tell(partial(told.append, 1))
    assert told == [1]
    disconnects.tell(partial(told.append, 2))
    assert told == [1, 2]


async def test_many_clients_are_told_of_a_few_in_each_step_of_the_loop():
    disconnects, told = Disconnects(), []
    for number in range(5 * AT_ONCE + 1):
        disconnects.tell(partial(told.append, number))
    assert len(told) == AT_ONCE
    assert await steps_of(told) == [AT_ONCE] * 4 + [1]
    assert told == [*range(5 * AT_ONCE + 1)]


async def test_whoever_leaves_later_comes_later():
    disconnects, told = Disconnects(), []
    for number in range(3 * AT_ONCE):
        disconnects.tell(partial(told.append, number))
    await asyncio.sleep(0)
    disconnects.tell(partial(told.append, "last"))
    await steps_of(told)
    assert told == [*range(3 * AT_ONCE), "last"]


async def test_after_a_pause_clients_are_told_of_at_once_again():
    disconnects, told = Disconnects(), []
    for number in range(2 * AT_ONCE):
        disconnects.tell(partial(told.append, number))
    await steps_of(told)
    disconnects.tell(partial(told.append, "new"))
    assert told[-1] == "new"


async def test_one_whose_end_fails_keeps_no_other_waiting():
    disconnects, told = Disconnects(), []
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

    def fail():
        raise RuntimeError("of one client")

    for number in range(AT_ONCE):
        disconnects.tell(partial(told.append, number))
    disconnects.tell(fail)
    disconnects.tell(partial(told.append, "other"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told[-1] == "other"
    assert [str(failure["exception"]) for failure in failures] == ["of one client"]


async def test_one_that_leaves_while_another_is_told_of_is_told_of_too():
    disconnects, told = Disconnects(), []
    disconnects.tell(lambda: disconnects.tell(partial(told.append, "inner")))
    assert told == ["inner"]


async def test_the_failure_of_a_client_that_leaves_alone_is_its_own():
    disconnects, told = Disconnects(), []

    def fail():
        raise RuntimeError("of one client")

    with pytest.raises(RuntimeError, match="of one client"):
        disconnects.tell(fail)
    await asyncio.sleep(0)
    disconnects.tell(partial(told.append, "other"))
    assert told == ["other"]
