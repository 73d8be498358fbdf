"""The first event of a turn: when it may be sent, and what waits for it until then."""

import asyncio
from collections.abc import Sequence

from chat.stream.events import Event, TurnStarted
from chat.stream.turn_stream import TurnStream
from sessions_app.errors import MochiError

COMMIT_SECONDS = 1.5


class Opening:
    """Opens a turn's stream: with the first output, or after 1.5 s. The message is saved by then.

    Until then a failure of the turn is a plain error for its caller, and nothing was sent.

    Attributes:
        committed: Done once the first event was sent; fails with the turn's error otherwise.
    """

    def __init__(self, stream: TurnStream, first_event: TurnStarted) -> None:
        loop = asyncio.get_running_loop()
        self.committed: asyncio.Future[None] = loop.create_future()
        self._stream = stream
        self._first_event = first_event
        self._held: list[Event] = []
        self._withdrawn = False
        self._timer = loop.call_later(COMMIT_SECONDS, self.commit)
        self.committed.add_done_callback(_mark_retrieved)

    @property
    def is_committed(self) -> bool:
        """Whether the first event was sent."""
        return self.committed.done()

    def commit(self, events: Sequence[Event] = ()) -> None:
        """Send the first event, what waits for it and these events; nothing the second time.

        Where the journal takes none of it, the turn stays one without events.
        """
        if self.committed.done() or self._withdrawn:
            return
        self._stream.emit([self._first_event, *self._held, *events])
        if self._stream.failure is None:
            self._tell_committed()

    async def finish(self, events: Sequence[Event]) -> None:
        """Send the last events, after the first one if that was not sent yet; end the stream."""
        first = () if self.is_committed else (self._first_event, *self._held)
        await self._stream.finish([*first, *events])
        if not self.is_committed:
            self._tell_committed()

    def send_or_hold(self, events: Sequence[Event]) -> None:
        """Send events that are no reason to commit; before the first event they wait for it."""
        if self.committed.done():
            if events:
                self._stream.emit(events)
        else:
            self._held.extend(events)

    def _tell_committed(self) -> None:
        self.committed.set_result(None)
        self._timer.cancel()

    def withdraw(self) -> None:
        """Send nothing any more: the turn ends without a single event."""
        self._timer.cancel()
        self._withdrawn = True

    def refuse(self, error: MochiError) -> None:
        """Tell whoever waits for the first event why there will be none."""
        self.withdraw()
        if not self.committed.done():
            self.committed.set_exception(error)


def _mark_retrieved(future: asyncio.Future[None]) -> None:
    """Look at an error that somebody else reports, so that asyncio does not warn of it."""
    if not future.cancelled():
        future.exception()
