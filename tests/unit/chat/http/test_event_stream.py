"""The body of a stream, with a projector: each event is fed once, and nothing is nothing."""

import asyncio
from collections.abc import Sequence
from unittest.mock import patch

from chat.http.event_stream import EventStreamBody
from chat.stream import heartbeat
from chat.stream.numbered_event import NumberedEvent, Push


class Shouting:
    """Shows the events named ``content_delta`` by their numbers, and counts what it is fed."""

    def __init__(self, opening: bytes = b"") -> None:
        self.opening = opening
        self.heartbeat = b"(alive)"
        self.has_ended = False
        self.fed: list[int] = []

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        self.fed += [event.number for event in events]
        return b"".join(b"<%d>" % event.number for event in events if event.name == "content_delta")


class Scripted:
    """A listener that returns what a test put in, and hands on the sink that it was given."""

    turn_id = "t1"

    def __init__(self, *events: Sequence[NumberedEvent] | None) -> None:
        self._events = list(events)
        self.sink: Push | None = None

    async def next(self, sink: Push | None = None, /) -> Sequence[NumberedEvent] | None:
        self.sink = sink
        return self._events.pop(0) if self._events else None

    def put(self, events: Sequence[NumberedEvent]) -> None:
        self._events.append(events)

    def close(self) -> None: ...


class Connection:
    """Takes bytes until it is full."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_full = False

    def write(self, chunk: bytes) -> bool:
        if self.is_full:
            return False
        self.written.append(chunk)
        return True


def text(number: int) -> NumberedEvent:
    return NumberedEvent(number, "content_delta", '{"content":"x","role":"assistant"}')


def silent(number: int) -> NumberedEvent:
    return NumberedEvent(number, "status", '{"state":"retrying"}')


async def pushed(
    listener: Scripted, projector: Shouting, connection: Connection
) -> tuple[EventStreamBody, Push]:
    """Return a body that waits after its first chunk, and where its listener pushes events."""
    body = EventStreamBody(listener, listener.close, projector)
    body.sink = connection.write
    await anext(body)
    listener.put(())
    assert await anext(body) == projector.heartbeat
    assert listener.sink is not None
    return body, listener.sink


async def test_events_that_show_nothing_make_no_chunk() -> None:
    listener = Scripted([silent(1)], [silent(2), text(3)], [silent(4)], [text(5)], None)
    projector = Shouting()
    body = EventStreamBody(listener, listener.close, projector)
    assert [chunk async for chunk in body] == [b"<3>", b"<5>"]
    assert projector.fed == [1, 2, 3, 4, 5]


async def test_the_opening_comes_once_and_does_not_wait_for_what_shows_something() -> None:
    listener = Scripted([silent(1)], [text(2)], None)
    body = EventStreamBody(listener, listener.close, Shouting(b"hello "))
    assert [chunk async for chunk in body] == [b"hello ", b"<2>"]


async def test_silence_is_filled_with_the_heartbeat_of_the_projector() -> None:
    listener = Scripted((), [text(1)], None)
    body = EventStreamBody(listener, listener.close, Shouting())
    assert [chunk async for chunk in body] == [b"(alive)", b"<1>"]


async def test_nothing_is_pushed_before_the_first_chunk() -> None:
    listener = Scripted([silent(1)], None)
    body = EventStreamBody(listener, listener.close, Shouting())
    body.sink = Connection().write
    assert [chunk async for chunk in body] == []
    assert listener.sink is None


async def test_pushed_events_that_show_nothing_are_taken_and_not_written() -> None:
    listener, connection = Scripted([text(1)]), Connection()
    _, push = await pushed(listener, Shouting(), connection)
    assert push([silent(2)])
    assert push([text(3)])
    assert connection.written == [b"<3>"]  # an empty piece would end a chunked body


async def test_events_that_a_full_connection_refused_are_fed_once() -> None:
    listener, connection, projector = Scripted([text(1)]), Connection(), Shouting()
    body, push = await pushed(listener, projector, connection)
    connection.is_full = True
    assert not push([text(2), silent(3)])
    listener.put([text(2), silent(3), text(4)])  # the listener returns what was not taken
    assert await anext(body) == b"<2><4>"
    assert projector.fed == [1, 2, 3, 4]


async def test_refused_events_that_come_again_alone_are_sent_too() -> None:
    listener, connection, projector = Scripted([text(1)]), Connection(), Shouting()
    body, push = await pushed(listener, projector, connection)
    connection.is_full = True
    assert not push([text(2)])
    listener.put([text(2)])
    listener.put([text(3)])
    assert [await anext(body), await anext(body)] == [b"<2>", b"<3>"]
    assert projector.fed == [1, 2, 3]


async def test_events_that_never_show_anything_do_not_keep_heartbeats_away() -> None:
    listener, connection = Scripted([text(1)]), Connection()
    _, push = await pushed(listener, Shouting(), connection)
    assert push([silent(2)])
    assert connection.written == []
    with patch.object(heartbeat, "HEARTBEAT_SECONDS", 0.0):
        assert push([silent(3)])
    assert connection.written == [b"(alive)"]


async def test_a_stream_that_its_projector_ended_ends_before_its_turn() -> None:
    listener, projector = Scripted([text(1)], [text(2)]), Shouting()
    body = EventStreamBody(listener, listener.close, projector)
    assert await anext(body) == b"<1>"
    projector.has_ended = True
    assert [chunk async for chunk in body] == []


async def test_the_listener_keeps_what_ended_a_stream_so_that_it_returns_at_once() -> None:
    listener, connection, projector = Scripted([text(1)]), Connection(), Shouting()
    _, push = await pushed(listener, projector, connection)
    assert push([text(2)])
    projector.has_ended = True
    assert not push([text(3)])
    assert connection.written == [b"<2>", b"<3>"]


async def test_what_ended_a_stream_is_sent_though_the_connection_was_full() -> None:
    listener, connection, projector = Scripted([text(1)]), Connection(), Shouting()
    body, push = await pushed(listener, projector, connection)
    connection.is_full = projector.has_ended = True
    assert not push([text(2)])
    listener.put([text(2)])
    assert [chunk async for chunk in body] == [b"<2>"]


async def test_without_a_projector_the_events_are_sent_as_they_are() -> None:
    listener = Scripted([text(1)], (), [text(2)], None)
    body = EventStreamBody(listener, listener.close)
    data = b'event: content_delta\ndata: {"content":"x","role":"assistant"}\n\n'
    assert [chunk async for chunk in body] == [
        b"retry: 2000\nid: t1:1\n" + data,
        b": keep-alive\n\n",
        b"id: t1:2\n" + data,
    ]


def messages_of(stream: bytes) -> list[dict[str, str]]:
    """Read a stream as ``@microsoft/fetch-event-source`` does: each empty line ends a message."""
    messages, message = [], {"data": ""}
    for line in stream.decode().split("\n")[:-1]:
        if not line:
            messages.append(message)
            message = {"data": ""}
        elif not line.startswith(":"):
            field, _, value = line.partition(": ")
            message[field] = value
    return messages


async def test_the_time_to_reconnect_is_a_field_of_the_first_event() -> None:
    listener = Scripted([text(1)], [text(2)], None)
    body = EventStreamBody(listener, listener.close)
    messages = messages_of(b"".join([chunk async for chunk in body]))
    assert [(each["data"] != "", each.get("retry")) for each in messages] == [
        (True, "2000"),
        (True, None),
    ]


async def test_a_heartbeat_before_the_first_event_does_not_take_its_fields() -> None:
    listener = Scripted((), [text(1)], None)
    body = EventStreamBody(listener, listener.close)
    first, second = [chunk async for chunk in body]
    assert first == b": keep-alive\n\n"
    assert second.startswith(b"retry: 2000\nid: t1:1\n")


async def test_a_body_that_is_closed_in_a_thread_leaves_its_turn() -> None:
    left = asyncio.Event()
    body = EventStreamBody(Scripted(), left.set)
    await asyncio.to_thread(body.close)
    await left.wait()


async def test_a_body_that_was_left_is_not_left_again_when_it_is_closed() -> None:
    left: list[str] = []
    body = EventStreamBody(Scripted(), lambda: left.append("left"))
    await body.aclose()
    await asyncio.to_thread(body.close)
    await asyncio.sleep(0)
    assert left == ["left"]


class Silent(Scripted):
    """A listener that waits for ever."""

    async def next(self, sink: Push | None = None, /) -> Sequence[NumberedEvent] | None:
        self.sink = sink
        await asyncio.Event().wait()
        return None


async def waiting(body: EventStreamBody) -> asyncio.Task[bytes]:
    """Return a task that waits for the next chunk."""
    task = asyncio.create_task(anext(body))
    await asyncio.sleep(0)
    return task


async def test_a_revoked_stream_ends_with_an_error_without_an_id() -> None:
    listener = Silent()
    body = EventStreamBody(listener, listener.close)
    task = await waiting(body)
    body.revoke()
    body.revoke()

    assert b'event: error\ndata: {"code":"UNAUTHENTICATED"' in await task
    assert b"id:" not in task.result()
    assert [chunk async for chunk in body] == []


async def test_a_revoked_stream_of_a_protocol_is_ended_by_its_projector() -> None:
    projector, listener = Shouting(), Silent()
    body = EventStreamBody(listener, listener.close, projector)
    task = await waiting(body)
    body.revoke()
    await asyncio.wait([task])

    assert projector.fed == [0, 0]


async def test_nothing_is_pushed_to_a_revoked_stream() -> None:
    connection, projector = Connection(), Shouting()
    body, push = await pushed(Scripted([text(1)]), projector, connection)
    body.revoke()

    assert not push([text(2)])
    assert connection.written == []


async def test_a_stream_that_is_revoked_while_its_client_leaves_is_left() -> None:
    listener = Silent()
    body = EventStreamBody(listener, listener.close)
    task = await waiting(body)
    body.revoke()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()


async def test_a_client_that_leaves_a_stream_whose_projector_has_ended_is_noticed() -> None:
    listener, projector = Silent(), Shouting()
    body = EventStreamBody(listener, listener.close, projector)
    task = await waiting(body)
    projector.has_ended = True
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
