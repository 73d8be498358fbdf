"""Defines the values that listeners of a turn receive: numbered events and their encoded form."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from chat.storage.journal import Entry
from chat.stream.events import EVENTS, Event
from sessions_app.decoding import decoder_of

_DECODERS = {event.event: decoder_of(event) for event in EVENTS}


class NumberedEvent(msgspec.Struct, gc=False):
    """An event of a turn, identical for live and late listeners in any process.

    Streams of other protocols are pure functions of these values. They may insert ``data`` into
    their own JSON without decoding it (docs/decisions/0042).

    Attributes:
        number: The event's number within its turn, from 1 without gaps.
        name: The event's name, ``Event.event``.
        data: The payload as one line of ASCII JSON.
        frame: The encoded server-sent event, cached once a listener needed it.
    """

    number: int
    name: str
    data: str
    frame: str = ""

    def decode(self) -> Event | None:
        """Decode the payload; None for an event that this release does not know."""
        decoder = _DECODERS.get(self.name)
        return None if decoder is None else decoder.decode(self.data)


Push = Callable[[Sequence[NumberedEvent]], bool]
"""Takes events where they are emitted; returns whether it took them."""


class Listener(Protocol):
    """Receives the events of one turn, live or from its journal.

    Attributes:
        turn_id: The turn.
    """

    turn_id: str

    async def next(self, sink: Push | None = None, /) -> Sequence[NumberedEvent] | None:
        """Wait for the next events and return all; return none after 15 s without any.

        Args:
            sink: May get events while this waits; those that it does not take are returned.

        Returns:
            The events; None after the last one.
        """

    def close(self) -> None:
        """Stop listening."""


def numbered_events(entries: Iterable[Entry], *, after: int) -> list[NumberedEvent]:
    """Return the events of a journal after an event number, without notes."""
    return [
        NumberedEvent(entry.n, entry.event, bytes(entry.data).decode("ascii"))
        for entry in entries
        if entry.n > after
    ]
