"""Streams turns to clients of these protocols."""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from django.http import HttpResponse
from django.http.response import HttpResponseBase

from chat.http.event_stream import HEADERS, NO_HEADERS, EventStream, EventStreamBody
from chat.http.projector import Projector
from chat.service import OpenTurn
from chat.stream.numbered_event import Listener
from dialects_app.shared.refused_turns import events_of_refused, is_refusal
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

    async def stream_or_refusal(
        self, model: str, is_shown: Callable[[MochiError], bool] = is_refusal
    ) -> HttpResponseBase:
        """Return the stream of the turn, also of one that ended at once with certain errors.

        Args:
            model: The model.
            is_shown: Whether the protocol shows an error so; by default a provider's refusal of
                the content.

        Raises:
            MochiError: The turn ended before its first event with another error.
        """
        try:
            return await self.stream()
        except MochiError as error:
            events = events_of_refused(self.turn, model, error, is_shown)
            return HttpResponse(self.projector.feed(events), headers=HEADERS)


class FollowedTurn(NamedTuple, Generic[AnyProjector]):
    """A running turn that another request started, and the projector of its events."""

    listener: Listener
    projector: AnyProjector

    def stream(self, headers: Mapping[str, str] = NO_HEADERS) -> EventStream:
        """Return the stream of the turn."""
        body = EventStreamBody(self.listener, self.listener.close, self.projector)
        return EventStream(body, headers=headers)
