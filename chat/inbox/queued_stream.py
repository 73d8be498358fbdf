"""Streams the turn that answers a queued message, from the event on with which it does."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from chat.stream.encoding import encode_event
from chat.stream.events import Done, Event, MessageTaken, TurnStarted
from chat.stream.heartbeat import HEARTBEAT_SECONDS
from chat.stream.numbered_event import Listener, NumberedEvent, Push
from chat.turn.outcome import failed
from chat.turn.turn_ids import new_turn_id
from sessions_app.errors import MochiError

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
"""The pauses between two looks at whether a turn has taken the message."""


class QueuedStream:
    """Receives the events of the turn that answers a message (a ``Listener``).

    Until a turn has taken the message, there is none; those of the turn from before that are left
    out. If the turn dies without an event, the message waits again, and so does this.

    Args:
        session_id: The session.
        message_id: The message.
        turn_of: Returns the turn that took it; None while it waits. Raises once it is deleted.
        listen: Listens to a turn; returns None if nothing of it is left.

    Attributes:
        session_id: As above.
        turn_id: The turn that answers; empty while the message waits.
    """

    def __init__(
        self,
        session_id: str,
        message_id: str,
        *,
        turn_of: Callable[[], Awaitable[str | None]],
        listen: Callable[[str], Awaitable[Listener | None]],
    ) -> None:
        self.turn_id = ""
        self.session_id = session_id
        self._message_id = message_id
        self._turn_of = turn_of
        self._listen = listen
        self._listener: Listener | None = None
        self._shows = False
        self._ended = False
        self._closed = False

    async def next(self, sink: Push | None = None, /) -> Sequence[NumberedEvent] | None:
        """Wait for the next events; return none after 15 s without any, None after the last."""
        if self._ended:
            return None
        if self._listener is None:
            try:
                self._listener = await self._turn_listener()
            except MochiError as error:
                return self._end(failed(error))
            if self._listener is None:
                return self._end() if self.turn_id else ()
        while (events := await self._listener.next(sink if self._shows else None)) is not None:
            shown = self._from_message(events)
            if shown or not events:
                return shown
        return None if self._shows else self._end()

    async def _turn_listener(self) -> Listener | None:
        """Wait for the turn that takes the message; None after a heartbeat's time without.

        Also if nothing is left of the turn's stream; then ``turn_id`` names it.
        """
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE_SECONDS
        end = loop.time() + HEARTBEAT_SECONDS
        while not self._closed:
            turn_id = await self._turn_of()
            if turn_id is not None and (listener := await self._listen(turn_id)) is not None:
                self.turn_id = turn_id
                return listener
            if turn_id is not None and turn_id == await self._turn_of():
                self.turn_id = turn_id
            if self.turn_id or loop.time() >= end:
                return None
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return None

    def _from_message(self, events: Sequence[NumberedEvent]) -> Sequence[NumberedEvent]:
        """Return the events from the one on that shows the message."""
        for index, event in enumerate(events if not self._shows else ()):
            match event.decode() if event.name in _SHOWING else None:
                case TurnStarted(user_message_id=shown) | MessageTaken(message_id=shown):
                    if shown == self._message_id:
                        self._shows = True
                        return events[index:]
        return events if self._shows else ()

    def _end(self, *last: Event) -> Sequence[NumberedEvent]:
        """Return the events of a stream whose message was deleted or refused, or is long over."""
        self._ended, self.turn_id = True, self.turn_id or new_turn_id()
        return [
            NumberedEvent(number, event.event, encode_event(event))
            for number, event in enumerate((*last, Done(session_id=self.session_id)), 1)
        ]

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        if self._listener is not None:
            self._listener.close()


_SHOWING = frozenset({TurnStarted.event, MessageTaken.event})
