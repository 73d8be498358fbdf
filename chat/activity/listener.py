"""Receives changes for one client, in a buffer of bounded size."""

from collections.abc import Callable, Sequence

from chat.stream.event_queue import EventQueue
from chat.stream.numbered_event import NumberedEvent


class ActivityListener(EventQueue):
    """Listens to changes.

    A client that falls behind is told to begin anew: for it that is less than all the changes.

    Args:
        leave: Called once, when it is closed.
        begin_anew: Returns the event that says so, in the place of one that can't be kept.
    """

    __slots__ = ("_begin_anew", "_is_closed", "_leave", "_newest")

    def __init__(
        self,
        leave: Callable[["ActivityListener"], None],
        begin_anew: Callable[[NumberedEvent], NumberedEvent],
    ) -> None:
        super().__init__()
        self._leave = leave
        self._begin_anew = begin_anew
        self._is_closed = False
        self._newest: NumberedEvent | None = None

    def push(self, events: Sequence[NumberedEvent]) -> None:
        """Add events, unless the stream has ended."""
        if events and not self.has_ended:
            self._newest = events[-1]
            super().push(events)

    def close(self) -> None:
        """Stop listening. Idempotent."""
        if not self._is_closed:
            self._is_closed = True
            super().close()
            self._leave(self)

    def _can_be_caught_up(self, events: Sequence[NumberedEvent]) -> bool:  # noqa: ARG002
        """Return True: the client loads its list again."""
        return True

    async def _catch_up(self) -> Sequence[NumberedEvent]:
        """Return the event that tells the client to begin anew."""
        self._is_behind = False
        return [self._begin_anew(self._newest)] if self._newest else []
