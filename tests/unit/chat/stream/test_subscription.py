"""A listener gets each event once and in order, however slow it and its journal are."""

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.storage.journal import Entry, JournalSlice
from chat.stream import event_queue, subscription
from chat.stream.numbered_event import NumberedEvent, Push
from chat.stream.subscription import Subscription
from sessions_app.errors import StorageUnavailable

MAX_PENDING_BYTES = 4 * event_queue.EVENT_BYTES
ENTRIES_A_PASSAGE = 3

sizes = st.lists(st.integers(0, 2 * event_queue.EVENT_BYTES), min_size=1, max_size=4)
emitted = st.tuples(st.just("emit"), sizes)
fetched = st.tuples(st.just("fetch"), st.none())
refused = st.tuples(st.just("refuse"), st.integers(1, 2))
unreachable = st.tuples(st.just("unreachable"), st.integers(1, 2))
steps = st.lists(st.one_of(emitted, fetched, refused, unreachable), max_size=30)


class Turn:
    """A turn's stream with its journal in memory, and one listener that is slow at times."""

    turn_id, session_id = "t1", "s"

    def __init__(self) -> None:
        self.last_number = self.journalled = 0
        self.ended = False
        self.entries: list[Entry] = []
        self.failing_reads = self.refusals = 0
        self.received: list[int] = []
        self.subscription: Subscription | None = None
        self.sink: Push | None = None
        self.fetching: asyncio.Task[Sequence[NumberedEvent] | None] | None = None

    def subscribe(self, after: int | None, *, has_sink: bool) -> None:
        self.sink = self.take if has_sink else None
        self.subscription = Subscription(self, self.read, after)

    def unsubscribe(self, subscription: Subscription) -> None:
        assert subscription is self.subscription

    def take(self, events: Sequence[NumberedEvent]) -> bool:
        if self.refusals:
            self.refusals -= 1
            return False
        self.received += [event.number for event in events]
        return True

    async def read(self, position: int) -> JournalSlice:
        await asyncio.sleep(0)
        if self.failing_reads:
            self.failing_reads -= 1
            raise StorageUnavailable("the journal is away")
        end = min(position + ENTRIES_A_PASSAGE, len(self.entries))
        return JournalSlice(self.entries[position:end], end)

    def emit(self, data_sizes: Sequence[int], *, journalled: bool = True) -> None:
        events = []
        for size in data_sizes:
            self.last_number += 1
            data = f'"{"x" * size}"'
            events.append(NumberedEvent(self.last_number, "content_delta", data))
            if journalled:
                self.entries.append(Entry(0, "note", msgspec.Raw(b"{}")))
                raw = msgspec.Raw(data.encode())
                self.entries.append(Entry(self.last_number, "content_delta", raw))
                self.journalled = self.last_number
        if self.subscription is not None:
            self.subscription.push(events)

    async def fetch(self) -> bool:
        """Have the listener ask for events, unless it does; False after the last one."""
        assert self.subscription is not None
        if self.fetching is None:
            self.fetching = asyncio.create_task(self.subscription.next(self.sink))
        for _ in range(3):
            await asyncio.sleep(0)
        if not self.fetching.done():
            return True
        events, self.fetching = self.fetching.result(), None
        if events is not None:
            self.received += [event.number for event in events]
        return events is not None

    async def take_step(self, step: str, argument: object) -> None:
        match step, argument:
            case "emit", [*data_sizes]:
                self.emit(data_sizes)
            case "refuse", int(times):
                self.refusals = times
            case "unreachable", int(times):
                self.failing_reads = times
            case _:
                await self.fetch()

    def end(self) -> None:
        self.ended = True
        assert self.subscription is not None
        self.subscription.end()


async def listen(
    before: Sequence[int],
    after: int | None,
    taken: Sequence[tuple[str, object]],
    *,
    has_sink: bool,
    kept: bool,
) -> Turn:
    """Return the turn after a listener that came behind its first events took all steps."""
    turn = Turn()
    turn.emit(before)
    turn.subscribe(after, has_sink=has_sink)
    for step, argument in taken:
        await turn.take_step(step, argument)
    turn.failing_reads = 0  # a journal that is away at the end is another test's
    turn.emit([1], journalled=kept)
    turn.end()
    async with asyncio.timeout(5):
        while await turn.fetch():
            pass
    return turn


@settings(max_examples=20 * settings.default.max_examples)
@pytest.mark.parametrize("kept", [True, False], ids=["end-journalled", "end-not-journalled"])
@given(before=sizes, from_start=st.booleans(), has_sink=st.booleans(), taken=steps)
def test_a_listener_gets_each_event_once_and_in_order(before, from_start, has_sink, taken, kept):
    after = 0 if from_start else None
    with (
        patch.object(event_queue, "MAX_PENDING_BYTES", MAX_PENDING_BYTES),
        patch.object(subscription, "RETRY_SECONDS", 0),
    ):
        turn = asyncio.run(listen(before, after, taken, has_sink=has_sink, kept=kept))
    first = 1 if from_start else len(before) + 1
    assert turn.received == list(range(first, turn.last_number + 1))
