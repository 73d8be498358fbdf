"""Streams turns to clients of these protocols."""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from django.http import HttpResponse
from django.http.response import HttpResponseBase

from chat.http.event_stream import HEADERS, NO_HEADERS, EventStream, EventStreamBody
from chat.http.projector import Projector
from chat.service import OpenTurn
from chat.stream.numbered_event import Listener
from dialects_app.shared.refused_turns import events_of_refused
from sessions_app.errors import MochiError

AnyProjector = TypeVar("AnyProjector", bound=Projector)


class StartedTurn(NamedTuple, Generic[AnyProjector]):
    """A turn that this request started, and the projector of its events."""

    turn: OpenTurn
    projector: AnyProjector

    async def stream(self, headers: Mapping[str, str] = NO_HEADERS) -> EventStream:
        """Return the stream of the turn once it has begun.

        Raises:
            MochiError: The turn ended before its first event.
        """
        turn = self.turn
        body = EventStreamBody(turn.listener, turn.leave, self.projector)
        stream = EventStream(body, turn.committed, headers=headers)
        await stream.ready()
        return stream

    async def stream_or_refusal(self, model: str) -> HttpResponseBase:
        """Return the stream of the turn, also if the provider refused its content at once.

        Raises:
            MochiError: The turn ended before its first event for another reason.
        """
        try:
            return await self.stream()
        except MochiError as error:
            events = self.projector.feed(events_of_refused(self.turn, model, error))
            return HttpResponse(events, headers=HEADERS)


class FollowedTurn(NamedTuple, Generic[AnyProjector]):
    """A running turn that another request started, and the projector of its events."""

    listener: Listener
    projector: AnyProjector

    def stream(self, headers: Mapping[str, str] = NO_HEADERS) -> EventStream:
        """Return the stream of the turn."""
        body = EventStreamBody(self.listener, self.listener.close, self.projector)
        return EventStream(body, headers=headers)
