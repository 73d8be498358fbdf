"""Numbering, handing out and falling behind; the first event; signals; draining."""

import asyncio
import errno
from functools import partial
from unittest.mock import patch

import pytest

from chat.http.event_stream import EventStreamBody
from chat.http.sse import encode_frames
from chat.storage.files.journals import FileTurnJournal
from chat.storage.files.signals import FileSignals
from chat.storage.files.watcher import PathWatcher
from chat.storage.signal_inbox import SignalInbox
from chat.stream import commit_point, heartbeat
from chat.stream import turn_stream as stream
from chat.stream.commit_point import CommitPoint
from chat.stream.events import ContentDelta, Done, StatusChanged, TurnStarted
from chat.stream.notes import Stopped
from chat.stream.turn_stream import TurnStream
from models_app.errors import OllamaError
from sessions_app.errors import StorageError
from tests.unit.chat.listening import names, read_all

TURN, OTHER_TURN = "0199f3a2b4c50000abcd", "0199f3a2b4c50000abce"
STARTED = TurnStarted(turn_id="t1", session_id="s", model="m")


@pytest.fixture
async def turn_stream(tmp_path):
    journal = FileTurnJournal(tmp_path)
    writer = await asyncio.to_thread(journal.open, "s", "t1", owner="me")
    made = TurnStream(
        "t1",
        session_id="s",
        writer=writer,
        read_journal=partial(asyncio.to_thread, journal.read, "s", "t1"),
        discard_journal=partial(asyncio.to_thread, journal.discard, "s", "t1"),
    )
    yield made
    if not made.ended:
        made.close()


def delta(text):
    return ContentDelta(content=text)


def sent(events):
    return [(event.number, event.name, event.data) for event in events]


async def test_listeners_share_what_is_encoded_for_them(turn_stream):
    listeners = [turn_stream.subscribe(), turn_stream.subscribe()]
    turn_stream.emit([STARTED])
    (first,), (second,) = [await each.next() for each in listeners]
    encode_frames("t1", [first])
    assert second.frame.startswith("id: t1:1\nevent: turn_started\n")
    turn_stream.close()


async def test_what_is_journalled_is_observed_but_for_the_end(turn_stream):
    observed = []
    turn_stream.observe(observed.extend)
    note = Stopped(upstream=True, tools=[], agents=[])
    turn_stream.emit([STARTED, delta("a")])
    turn_stream.note(note)
    await turn_stream.finish([Done(session_id="s")])
    assert observed == [STARTED, delta("a"), note]


async def test_what_can_not_be_journalled_is_not_observed(turn_stream):
    observed = []
    turn_stream.observe(observed.extend)
    turn_stream.leave()
    turn_stream.emit([delta("a")])
    turn_stream.note(Stopped(upstream=True, tools=[], agents=[]))
    assert observed == []


async def test_a_listener_after_an_event_gets_the_rest_once(turn_stream):
    turn_stream.emit([STARTED, *[delta(str(number)) for number in range(20)]])
    subscription = turn_stream.subscribe(after=10)
    waiting = asyncio.create_task(read_all(subscription))
    await asyncio.sleep(0)
    turn_stream.emit([Done(session_id="s")])
    turn_stream.close()
    received = await waiting
    assert [event.number for event in received] == list(range(11, 23))


async def test_what_waits_is_sent_at_once(turn_stream):
    subscription = turn_stream.subscribe()
    turn_stream.emit([STARTED])
    turn_stream.emit([delta("a")])
    events = await subscription.next()
    subscription.close()
    assert names(events) == ["turn_started", "content_delta"]


async def test_after_some_silence_a_listener_gets_no_events(turn_stream):
    with patch.object(heartbeat, "HEARTBEAT_SECONDS", 0.02):
        subscription = turn_stream.subscribe()
        assert await subscription.next() == ()
        assert await subscription.next() == ()
        turn_stream.emit([STARTED])
        assert names(await subscription.next()) == ["turn_started"]
        subscription.close()


async def test_the_stream_opens_with_what_waited_for_it(turn_stream):
    subscription = turn_stream.subscribe()
    first = CommitPoint(turn_stream, STARTED)
    first.send_or_hold([StatusChanged(state="retrying")])
    assert turn_stream.last_number == 0
    first.commit()
    first.commit()
    assert turn_stream.last_number == 2
    assert names(await subscription.next()) == ["turn_started", "status"]
    subscription.close()


async def test_the_stream_opens_by_itself_after_a_while(turn_stream):
    with patch.object(commit_point, "COMMIT_SECONDS", 0.02):
        first = CommitPoint(turn_stream, STARTED)
        await first.committed
    assert turn_stream.last_number == 1


async def test_a_refused_turn_has_no_event_even_later(turn_stream):
    first = CommitPoint(turn_stream, STARTED)
    first.refuse(OllamaError("no"))
    first.commit()
    with pytest.raises(OllamaError):
        await first.committed
    assert turn_stream.last_number == 0


async def test_a_signal_reaches_the_turn_also_when_it_comes_early(tmp_path):
    signals = FileSignals(tmp_path / "signals", PathWatcher(interval_seconds=0.001))
    obeyed = asyncio.Queue()
    inbox = SignalInbox(signals, lambda turn_id, kind: obeyed.put_nowait((turn_id, kind)))
    inbox.expect(TURN)
    inbox.open()
    await asyncio.to_thread(signals.send, TURN, "cancel")
    await asyncio.to_thread(signals.send, OTHER_TURN, "cancel")
    path = tmp_path / "signals" / f"{TURN}.cancel"
    async with asyncio.timeout(5):
        while await asyncio.to_thread(path.exists):
            await asyncio.sleep(0.001)
        inbox.ready(TURN)
        assert await obeyed.get() == (TURN, "cancel")
    inbox.forget(TURN)
    assert obeyed.empty()
    assert await asyncio.to_thread((tmp_path / "signals" / f"{OTHER_TURN}.cancel").exists)


async def test_while_the_listener_waits_events_go_straight_to_its_sink(turn_stream):
    taken, takes = [], [True, True, False]

    def sink(events):
        if takes.pop(0):
            taken.extend(events)
            return True
        return False

    subscription = turn_stream.subscribe()
    turn_stream.emit([STARTED])  # nobody waits yet
    assert names(await subscription.next(sink)) == ["turn_started"]
    waiting = asyncio.create_task(subscription.next(sink))
    await asyncio.sleep(0)
    turn_stream.emit([delta("a")])
    turn_stream.emit([delta("b")])
    await asyncio.sleep(0)
    assert not waiting.done()
    turn_stream.emit([delta("c")])  # it can't take this one
    turn_stream.emit([delta("d")])  # and must not take what comes after it

    assert [event.decode() for event in taken] == [delta("a"), delta("b")]
    assert [event.decode() for event in await waiting] == [delta("c"), delta("d")]
    turn_stream.close()
    assert await subscription.next() is None


async def test_what_a_sink_took_is_not_read_again_from_the_journal(turn_stream):
    subscription = turn_stream.subscribe()
    taken = []
    waiting = asyncio.create_task(subscription.next(lambda events: not taken.extend(events)))
    await asyncio.sleep(0)
    turn_stream.emit([delta("taken")])
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    turn_stream.emit([ContentDelta(content="x" * stream.MAX_PENDING_BYTES)])  # falls behind

    caught_up = await subscription.next()

    assert [event.number for event in taken] == [1]
    assert [event.number for event in caught_up] == [2]
    turn_stream.close()


async def test_a_delivery_that_is_closed_before_it_began_leaves_its_turn(turn_stream):
    left = []
    body = EventStreamBody(turn_stream.subscribe(), lambda: left.append(True))
    await body.aclose()
    assert left == [True]
    turn_stream.close()


async def test_a_delivery_begins_with_the_time_to_reconnect(turn_stream):
    turn_stream.emit([STARTED])
    turn_stream.close()
    body = EventStreamBody(turn_stream.subscribe(after=0), lambda: None)
    chunks = [chunk async for chunk in body]
    assert len(chunks) == 1
    assert chunks[0].startswith(b"retry: 2000\nid: t1:1\n")


async def test_a_listener_far_behind_reads_on_in_bounded_pieces(turn_stream):
    subscription = turn_stream.subscribe()
    turn_stream.emit([STARTED])
    for _ in range(3000):
        turn_stream.emit([delta("x" * 1000)])
    late = turn_stream.subscribe(after=2500)
    turn_stream.emit([Done(session_id="s")])
    turn_stream.close()
    for listener, first in ((subscription, 1), (late, 2501)):
        numbers = []
        while (events := await listener.next()) is not None:
            assert sum(len(event.data) for event in events) < 2 * stream.MAX_PENDING_BYTES
            numbers += [event.number for event in events]
        listener.close()
        assert numbers == list(range(first, 3003))


class SlowWriter:
    """A writer whose lines are kept when a test says so, as those of a journal elsewhere are."""

    is_synchronous = False

    def __init__(self):
        self.lines, self.waiting, self.failure = "", [], None

    def append(self, lines, kept=lambda: None):
        if self.failure:
            raise self.failure
        self.lines += lines
        self.waiting.append(kept)

    def on_failure(self, call):
        self.troubled = call

    def keep(self, count=1):
        for _ in range(count):
            self.waiting.pop(0)()

    def fail(self):
        self.failure = OSError(errno.ECONNRESET, "gone")
        self.waiting.clear()

    async def flushed(self):
        while self.waiting and not self.failure:
            await asyncio.sleep(0)
        if self.failure:
            raise self.failure

    def close(self):
        assert not self.waiting


@pytest.fixture
def slow():
    return SlowWriter()


@pytest.fixture
def slow_stream(slow):
    return TurnStream("t1", session_id="s", writer=slow, read_journal=None, discard_journal=None)


async def test_nothing_is_shown_before_it_is_kept(slow, slow_stream):
    subscription = slow_stream.subscribe()
    taken = []
    waiting = asyncio.create_task(subscription.next(lambda events: not taken.extend(events)))
    await asyncio.sleep(0)

    slow_stream.emit([STARTED])
    slow_stream.note(Stopped(upstream=True, tools=[], agents=[]))
    slow_stream.emit([delta("a"), delta("b")])
    assert (taken, slow_stream.last_number) == ([], 0)

    slow.keep()
    assert (names(taken), slow_stream.last_number) == (["turn_started"], 1)
    slow.keep(2)
    assert [event.number for event in taken] == [1, 2, 3]
    assert slow_stream.last_number == 3
    subscription.close()
    waiting.cancel()


async def test_the_stream_ends_when_its_last_event_is_kept(slow, slow_stream):
    subscription = slow_stream.subscribe()
    slow_stream.emit([STARTED])
    ending = asyncio.create_task(slow_stream.finish([Done(session_id="s")]))
    await asyncio.sleep(0)
    assert not slow_stream.ended
    while not ending.done():
        slow.keep(len(slow.waiting))
        await asyncio.sleep(0)
    received = await read_all(subscription)
    assert names(received) == ["turn_started", "done"]
    assert slow_stream.journalled == slow_stream.last_number == 2


async def test_what_is_never_kept_is_never_shown_and_its_numbers_are_given_again(slow, slow_stream):
    subscription = slow_stream.subscribe()
    slow_stream.emit([STARTED])
    slow.keep()
    slow_stream.emit([delta("lost")])
    slow.fail()

    assert not await slow_stream.flushed()
    with pytest.raises(StorageError):
        slow_stream.require_room()
    await slow_stream.finish([Done(session_id="s")])

    received = await read_all(subscription)
    assert [(event.number, event.name) for event in received] == [(1, "turn_started"), (2, "done")]


async def test_a_model_has_to_wait_for_a_journal_that_is_slow(slow, slow_stream):
    slow_stream.emit([STARTED])
    slow_stream.emit([delta("x" * stream.MAX_PENDING_BYTES)])
    assert slow_stream.is_congested
    assert not slow_stream.has_room
    slow.keep(2)
    assert not slow_stream.is_congested
    assert slow_stream.has_room


async def test_a_turn_that_is_to_end_takes_no_more_when_its_journal_catches_up(slow, slow_stream):
    slow_stream.emit([STARTED])
    slow_stream.emit([delta("x" * stream.MAX_PENDING_BYTES)])
    slow_stream.take_no_more()
    assert not slow_stream.has_room
    slow.keep(2)
    assert not slow_stream.has_room


async def test_what_waits_for_the_journal_is_not_observed_yet(slow, slow_stream):
    observed = []
    slow_stream.observe(observed.extend)
    note = Stopped(upstream=True, tools=[], agents=[])
    slow_stream.emit([STARTED])
    slow_stream.note(note)
    assert observed == []
    slow.keep(2)
    assert observed == [STARTED, note]
