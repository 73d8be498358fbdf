"""Holds back a turn's events until its first output, so that a failure can be an HTTP error."""

import asyncio
from collections.abc import Sequence

from chat.stream.events import Event, TurnResumed, TurnStarted
from chat.stream.turn_stream import TurnStream
from sessions_app.errors import MochiError

COMMIT_SECONDS = 1.5


class CommitPoint:
    """Buffers a turn's events until its first output, for up to 1.5 s.

    The message is saved by then. Until then nothing is sent, and a failure is an HTTP error.

    Attributes:
        committed: Done once the first event was sent; fails with the turn's error otherwise.
        is_committed: Whether ``committed`` is done, either way.
        first_event: The event that the stream begins with.
    """

    def __init__(self, stream: TurnStream, first_event: TurnStarted | TurnResumed) -> None:
        loop = asyncio.get_running_loop()
        self.committed: asyncio.Future[None] = loop.create_future()
        self.is_committed = False
        self._stream = stream
        self.first_event = first_event
        self._held: list[Event] = []
        self._withdrawn = False
        self._timer = loop.call_later(COMMIT_SECONDS, self.commit)
        self.committed.add_done_callback(_mark_retrieved)

    def commit(self, events: Sequence[Event] = ()) -> None:
        """Send the first event, the held ones and these. Idempotent.

        If the journal can't keep them, the turn stays without events.
        """
        if self.is_committed or self._withdrawn:
            return
        self._stream.emit([self.first_event, *self._held, *events])
        if self._stream.failure is None:
            self._commit()

    async def finish(self, events: Sequence[Event]) -> None:
        """Send the last events, preceded by the first one if necessary, and end the stream."""
        await self._stream.flushed()  # where the journal failed, what was sent may never be shown
        first = () if self._stream.last_number else (self.first_event, *self._held)
        await self._stream.finish([*first, *events])
        if not self.is_committed:
            self._commit()

    def send_or_hold(self, events: Sequence[Event]) -> None:
        """Send events, or hold them back if nothing was sent yet."""
        if not self.is_committed:
            self._held.extend(events)
        elif events:
            self._stream.emit(events)

    def withdraw(self) -> None:
        """Send nothing: the turn ends without any event."""
        self._timer.cancel()
        self._withdrawn = True

    def refuse(self, error: MochiError) -> None:
        """Fail ``committed`` with the error that ended the turn before its first event."""
        self.withdraw()
        if not self.is_committed:
            self.is_committed = True
            self.committed.set_exception(error)

    def _commit(self) -> None:
        self.is_committed = True
        self.committed.set_result(None)
        self._timer.cancel()


def _mark_retrieved(future: asyncio.Future[None]) -> None:
    """Retrieve an error that is reported elsewhere, so that asyncio does not warn about it."""
    if not future.cancelled():
        future.exception()
