"""One client's share of the changes: pushed where it keeps up, bounded where it does not."""

import asyncio

import pytest

from chat.activity.listener import ActivityListener
from chat.stream import heartbeat
from chat.stream.event_queue import EVENT_BYTES, MAX_PENDING_BYTES
from chat.stream.numbered_event import NumberedEvent


def event(number: int, size: int = 10) -> NumberedEvent:
    return NumberedEvent(number, "session_changed", "", "x" * size)


def begin_anew(instead_of: NumberedEvent) -> NumberedEvent:
    return NumberedEvent(instead_of.number, "reset", "", "reset")


@pytest.fixture
async def listener() -> ActivityListener:
    return ActivityListener(lambda _: None, begin_anew)


async def test_what_waits_is_fetched_in_order(listener: ActivityListener) -> None:
    listener.push([event(1)])
    listener.push([event(2), event(3)])
    fetched = await listener.next()
    assert fetched is not None
    assert [one.number for one in fetched] == [1, 2, 3]
    listener.end()
    listener.push([event(4)])
    assert await listener.next() is None


async def test_a_client_that_keeps_up_gets_events_without_a_task(
    listener: ActivityListener,
) -> None:
    taken: list[int] = []

    def sink(events):
        taken.extend(one.number for one in events)
        return len(taken) < 3

    waiting = asyncio.create_task(listener.next(sink))
    await asyncio.sleep(0)
    for number in (1, 2):
        listener.push([event(number)])
    assert not waiting.done()
    listener.push([event(3)])  # which is refused
    assert taken == [1, 2, 3]
    fetched = await waiting
    assert fetched is not None
    assert [one.number for one in fetched] == [3]


async def test_a_slow_client_takes_bounded_memory_and_begins_anew(
    listener: ActivityListener,
) -> None:
    size = MAX_PENDING_BYTES // 10 - EVENT_BYTES
    for number in range(1, 13):
        listener.push([event(number, size)])
    fetched = await listener.next()
    assert fetched is not None
    assert [(one.number, one.name) for one in fetched] == [(12, "reset")]
    for number in range(13, 1000):
        listener.push([event(number, size)])
    fetched = await listener.next()
    assert fetched is not None
    assert sum(len(one.frame) for one in fetched) <= MAX_PENDING_BYTES


async def test_silence_is_broken_by_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.001)
    listener = ActivityListener(lambda _: None, begin_anew)
    assert await listener.next() == ()
    assert await listener.next() == ()
    listener.close()
