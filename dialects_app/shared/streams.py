"""Answers clients of these protocols: with the streams of turns, or with JSON."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase

from chat.http.event_stream import HEADERS, NO_HEADERS, EventStream, EventStreamBody
from chat.http.projector import Projector
from chat.http.sse import HEARTBEAT
from chat.inbox.queued_stream import QueuedStream
from chat.service import OpenTurn, SessionSpace
from chat.stream.encoding import ascii_json
from chat.stream.numbered_event import Listener, NumberedEvent
from dialects_app.shared.refused_turns import events_of_refused
from sessions_app.errors import MochiError, SessionNotFound, StorageError

JSON = "application/json"

_encode = msgspec.json.Encoder(enc_hook=dict).encode


def json_response(
    value: object, headers: Mapping[str, str] = NO_HEADERS, *, status: int = 200
) -> HttpResponse:
    """Return a response with a value as JSON."""
    data: bytes | str
    try:
        data = _encode(value)
    except UnicodeEncodeError:  # half a character, in the words of a model
        data = ascii_json(value)
    return HttpResponse(data, status=status, content_type=JSON, headers=headers)


async def listen_to_running(space: SessionSpace, session_id: str) -> Listener | None:
    """Listen to the running turn of a session; None if none runs, or it was refused just now.

    Raises:
        SessionNotFound, StorageError: The session does not exist, or can't be read.
    """
    active = await space.turns.active(session_id)
    if active is None:
        return None
    try:
        return await space.turns.listen(session_id, active.turn_id)
    except (SessionNotFound, StorageError):
        raise
    except MochiError:  # its own client is told
        return None


async def stream_turn(
    turn: OpenTurn, projector: Projector, headers: Mapping[str, str] = NO_HEADERS
) -> EventStream:
    """Return the stream of a turn that this request started, once it has begun.

    Raises:
        MochiError: The turn ended before its first event.
    """
    body = EventStreamBody(turn.listener, turn.leave, projector)
    stream = EventStream(body, turn.committed, headers=headers)
    await stream.ready()
    return stream


async def stream_or_refusal(turn: OpenTurn, projector: Projector, model: str) -> HttpResponseBase:
    """Return the stream of a turn, also if the provider refused its content at once.

    Raises:
        MochiError: The turn ended before its first event for another reason.
    """
    try:
        return await stream_turn(turn, projector)
    except MochiError as error:
        events = projector.feed(events_of_refused(turn, model, error))
        return HttpResponse(events, headers=HEADERS)


def follow_turn(
    listener: Listener, projector: Projector, headers: Mapping[str, str] = NO_HEADERS
) -> EventStream:
    """Return the stream of a running turn that another request started."""
    return EventStream(EventStreamBody(listener, listener.close, projector), headers=headers)


def stream_when_taken(
    queued: QueuedStream,
    make: Callable[[str], Projector],
    headers: Mapping[str, str] = NO_HEADERS,
    *,
    first: bytes = HEARTBEAT,
) -> EventStream:
    """Return a stream that begins at once, and has the turn that takes a message once it begins.

    Args:
        queued: The stream of that turn.
        make: Makes the projector, with the turn's id.
        headers: Headers beside those of every stream.
        first: What is sent at once.
    """
    body = EventStreamBody(queued, queued.close, _LateProjector(queued, make), first=first)
    return EventStream(body, headers=headers)


class _LateProjector:
    """Makes the projector with the first events; implements ``Projector``."""

    opening = b""
    heartbeat = HEARTBEAT

    def __init__(self, queued: QueuedStream, make: Callable[[str], Projector]) -> None:
        self._queued = queued
        self._make = make
        self._made: Projector | None = None

    @property
    def has_ended(self) -> bool:
        return self._made is not None and self._made.has_ended

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        if self._made is None:
            self._made = self._make(self._queued.turn_id)
        return self._made.feed(events)
