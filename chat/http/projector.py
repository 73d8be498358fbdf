"""Declares the port that turns a turn's events into the bytes of a stream, in any protocol."""

from collections.abc import Sequence
from typing import Protocol

from chat.http import sse
from chat.stream.numbered_event import Listener, NumberedEvent


class Projector(Protocol):
    """Makes a stream of another protocol from a turn's events; one for each listener.

    Pure and deterministic: who listens live, late, through another process or after a restart gets
    the same bytes. So there is no clock and no random id in it: ids come from the turn, its
    messages and its calls, and the time from the turn's id. The text of a delta is spliced
    (``chat.stream.encoding.text_literal``), not decoded.

    A stream ends with ``done``. Before it comes exactly one of ``message_complete``, ``cancelled``
    and ``error``, or none of them: then the turn waits for approvals.
    """

    @property
    def opening(self) -> bytes:
        """Return what is sent right before the first events, after any heartbeat; may be empty."""

    @property
    def has_ended(self) -> bool:
        """Return whether the stream is over, although the turn goes on; it shows no more then."""

    @property
    def heartbeat(self) -> bytes:
        """Return what is sent after some silence, so that the connection is not taken for dead."""

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return what the next events show; empty if they show nothing.

        Every event is fed once and in order, the pieces may be of any size.
        """


class UnchangedEvents:
    """Sends events unchanged: the server's own stream (docs/events.md)."""

    opening = sse.RETRY
    heartbeat = sse.HEARTBEAT
    has_ended = False

    __slots__ = ("_listener",)

    def __init__(self, listener: Listener) -> None:
        self._listener = listener  # whose turn may not be known yet

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return the events as they go to the client."""
        return sse.encode_frames(self._listener.turn_id, events)
