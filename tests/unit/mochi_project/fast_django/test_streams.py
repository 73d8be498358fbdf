"""Streams of turns through the handler: their start, their errors, clients that leave."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.http import HttpRequest, StreamingHttpResponse
from django.test import AsyncClient, override_settings
from django.urls import path

from chat.errors import TooManyTurns
from chat.http import sse
from chat.http.event_stream import EventStream, EventStreamBody
from chat.stream.numbered_event import NumberedEvent, Push
from mochi_project.asgi_types import Message
from mochi_project.exchange import Exchange
from mochi_project.fast_django.handler import AsyncHandler
from tests.unit.mochi_project.fast_django.site import Client

pytestmark = pytest.mark.conformance

ONE = NumberedEvent(1, "content_delta", '{"content":"one","role":"assistant"}')
TWO = NumberedEvent(2, "content_delta", '{"content":"two","role":"assistant"}')


class Turn:
    """A turn as a stream sees it: its events, its error, and whether it was left."""

    turn_id = "t1"

    def reset(self) -> None:
        self.events: asyncio.Queue[Sequence[NumberedEvent] | None] = asyncio.Queue()
        self.error: Exception | None = None
        self.asked = asyncio.Event()
        self.left = 0

    async def next(self, _: Push | None = None, /) -> Sequence[NumberedEvent] | None:
        self.asked.set()
        return await self.events.get()

    def close(self) -> None:
        self.left += 1

    async def committed(self) -> None:
        if self.error is not None:
            raise self.error


turn = Turn()
MIDDLEWARE = ["mochi_project.errors.middleware.envelope_middleware"]


async def late(request: HttpRequest) -> StreamingHttpResponse:
    stream = EventStream(EventStreamBody(turn, turn.close), turn.committed)
    await stream.ready()
    return stream


async def unready(request: HttpRequest) -> StreamingHttpResponse:
    return EventStream(EventStreamBody(turn, turn.close), turn.committed)


async def stamped(request: HttpRequest) -> StreamingHttpResponse:
    stream = EventStream(EventStreamBody(turn, turn.close))
    stream["X-Stamp"] = "yes"
    stream.set_cookie("a", "b")
    return stream


class UrlConf:
    urlpatterns = (path("late", late), path("unready", unready), path("stamped", stamped))


@pytest.fixture(autouse=True)
def _urls() -> Iterator[None]:
    turn.reset()
    with override_settings(ROOT_URLCONF=UrlConf, MIDDLEWARE=[]):
        yield


async def test_nothing_is_sent_before_the_first_chunk_and_then_all_of_it() -> None:
    client = Client("/late")
    running = asyncio.create_task(client.run(AsyncHandler()))
    await turn.asked.wait()
    assert client.sent == []
    for events in ((), (ONE,), (TWO,), None):
        turn.events.put_nowait(events)
    await running
    assert client.status == 200
    assert dict(client.sent[0]["headers"]) == {
        b"Content-Type": b"text/event-stream; charset=utf-8",
        b"Cache-Control": b"no-cache, no-transform",
        b"X-Accel-Buffering": b"no",
    }
    assert client.body == sse.RETRY + sse.encode_frames("t1", [ONE, TWO])
    assert turn.left >= 1


async def test_a_stream_that_its_view_did_not_wait_for_is_waited_for_behind_it() -> None:
    client = Client("/unready")
    with override_settings(MIDDLEWARE=MIDDLEWARE):
        running = asyncio.create_task(client.run(AsyncHandler()))
        await turn.asked.wait()
        assert client.sent == []
        for events in ((), (ONE,), (TWO,), None):
            turn.events.put_nowait(events)
        await running
    assert client.status == 200
    assert client.body == sse.RETRY + sse.encode_frames("t1", [ONE, TWO])


async def test_such_a_stream_that_never_begins_is_answered_with_its_error() -> None:
    turn.error = TooManyTurns(3)
    turn.events.put_nowait(None)
    client = Client("/unready")
    with override_settings(MIDDLEWARE=MIDDLEWARE):
        await client.run(AsyncHandler())
    assert client.status == 503
    assert json.loads(client.body)["error"]["code"] == "TOO_MANY_TURNS"
    assert turn.left == 1


async def test_a_client_that_leaves_such_a_stream_before_it_begins_leaves_the_turn() -> None:
    client = Client("/unready")
    with override_settings(MIDDLEWARE=MIDDLEWARE):
        running = asyncio.create_task(client.run(AsyncHandler()))
        await turn.asked.wait()
        client.leave()
        await running
    assert client.sent == []
    assert turn.left >= 1


async def test_an_error_before_the_first_chunk_is_the_views_error_and_leaves_the_turn() -> None:
    turn.error = TooManyTurns(3)
    turn.events.put_nowait(None)
    stream = EventStream(EventStreamBody(turn, turn.close), turn.committed)
    with pytest.raises(TooManyTurns):
        await stream.ready()
    assert turn.left == 1


async def test_a_client_that_leaves_before_the_start_is_written_leaves_the_turn() -> None:
    turn.events.put_nowait((ONE,))
    client = Client("/late")
    blocked = asyncio.Event()

    async def never_drained(message: Message) -> None:
        blocked.set()
        await asyncio.Event().wait()

    client.on_send = never_drained
    running = asyncio.create_task(client.run(AsyncHandler()))
    await blocked.wait()
    client.leave()
    await running
    assert [message["type"] for message in client.sent] == ["http.response.start"]
    assert turn.left >= 1


async def test_a_client_that_leaves_before_the_first_chunk_leaves_the_turn() -> None:
    client = Client("/late")
    running = asyncio.create_task(client.run(AsyncHandler()))
    await turn.asked.wait()
    client.leave()
    await running
    assert client.sent == []
    assert turn.left >= 1


async def test_the_servers_cancellation_before_the_first_chunk_leaves_the_turn() -> None:
    client = Client("/late")
    handler = AsyncHandler()
    running = asyncio.create_task(handler(client.scope, client.incoming.get, client.send))
    await turn.asked.wait()
    running.cancel()
    await asyncio.wait([running], timeout=5)
    assert running.cancelled()
    assert turn.left >= 1


async def test_under_djangos_own_handler_the_view_waits_itself() -> None:
    for events in ((ONE,), None):
        turn.events.put_nowait(events)
    response = await AsyncClient().get("/late")
    assert response["Content-Type"] == "text/event-stream; charset=utf-8"
    assert b"".join([part async for part in response]) == sse.RETRY + ONE.frame.encode()  # type: ignore[attr-defined]


async def test_headers_and_cookies_that_somebody_adds_are_sent() -> None:
    turn.events.put_nowait(None)
    client = Client("/stamped")
    await client.run(AsyncHandler())
    headers = client.sent[0]["headers"]
    assert (b"X-Stamp", b"yes") in headers
    assert (b"Set-Cookie", b"a=b; Path=/") in headers
    assert (b"Content-Type", b"text/event-stream; charset=utf-8") in headers


class Cycle:
    """What an exchange knows of uvicorn's request."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}
        self.disconnected = False
        self.more_body = False
        self.flow = self
        self.reading = False
        self.send = None

    def resume_reading(self) -> None:
        self.reading = True


def with_exchange(client: Client) -> tuple[Cycle, Exchange]:
    cycle = Cycle()
    cycle.scope = client.scope
    return cycle, Exchange(cycle)  # type: ignore[arg-type]


async def test_our_protocol_tells_of_a_client_that_leaves_without_a_task_that_waits() -> None:
    client = Client("/late")
    cycle, exchange = with_exchange(client)
    tasks = len(asyncio.all_tasks())
    running = asyncio.create_task(AsyncHandler()(client.scope, client.incoming.get, client.send))
    await turn.asked.wait()
    assert len(asyncio.all_tasks()) == tasks + 1
    assert cycle.reading
    exchange.disconnect()
    await running
    exchange.disconnect()
    assert turn.left >= 1
    assert client.sent == []


async def test_a_client_that_has_left_already_is_noticed_too() -> None:
    client = Client("/late")
    cycle, _ = with_exchange(client)
    cycle.disconnected = True
    await client.run(AsyncHandler())
    assert client.sent == []
    assert turn.left >= 1
