"""A listener takes events from a queue, or has them pushed while it waits."""

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

from chat.stream import heartbeat
from chat.stream.event_queue import MAX_PENDING_BYTES, EventQueue
from chat.stream.numbered_event import NumberedEvent


class Numbers(EventQueue):
    """A queue that catches up with one event, which stands for all that were left out."""

    __slots__ = ("left_out",)

    def _can_be_caught_up(self, events: Sequence[NumberedEvent]) -> bool:
        self.left_out = events[-1]
        return True

    async def _catch_up(self) -> Sequence[NumberedEvent]:
        self._is_behind = False
        return [self.left_out]


def event(number: int, size: int = 1) -> NumberedEvent:
    return NumberedEvent(number, "content_delta", "x" * size)


def numbers(events: Sequence[NumberedEvent] | None) -> list[int]:
    assert events is not None
    return [each.number for each in events]


async def test_events_that_wait_come_together_and_in_order() -> None:
    queue = Numbers()
    queue.push([event(1)])
    queue.push([event(2), event(3)])
    queue.end()
    assert numbers(await queue.next()) == [1, 2, 3]
    assert await queue.next() is None
    queue.close()


async def test_events_are_pushed_only_to_who_waits() -> None:
    queue, taken = Numbers(), list[int]()

    def sink(events: Sequence[NumberedEvent]) -> bool:
        taken.extend(numbers(events))
        return True

    queue.push([event(1)])
    assert numbers(await queue.next(sink)) == [1]
    queue.push([event(2)])
    assert taken == []
    assert numbers(await queue.next(sink)) == [2]
    waiting = asyncio.create_task(queue.next(sink))
    await asyncio.sleep(0)
    queue.push([event(3)])
    assert taken == [3]
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    queue.push([event(4)])
    assert (taken, numbers(await queue.next())) == ([3], [4])
    queue.close()


async def test_a_queue_that_grows_too_long_is_emptied_and_catches_up() -> None:
    queue = Numbers()
    queue.push([event(1)])
    queue.push([event(2, MAX_PENDING_BYTES)])
    queue.push([event(3)])
    assert numbers(await queue.next()) == [3]
    queue.push([event(4)])
    assert numbers(await queue.next()) == [4]
    queue.close()


async def test_silence_is_told_by_no_events() -> None:
    with patch.object(heartbeat, "HEARTBEAT_SECONDS", 0.001):
        queue = Numbers()
        assert await queue.next() == ()
        queue.close()
