"""Ends a client's stream at a request for approval, as the AI SDK expects; the turn continues."""

from collections.abc import Sequence

from chat.stream.numbered_event import Listener, NumberedEvent, Push
from dialects_app.ai_sdk.projector import UIMessageProjector


class ListenerUntilEnd:
    """Receives the events of a turn until a projector has ended the stream.

    Implements ``Listener``.

    Args:
        listener: Receives all events of the turn.
        projector: The projector that the events are fed to.

    Attributes:
        turn_id: The turn.
    """

    def __init__(self, listener: Listener, projector: UIMessageProjector) -> None:
        self.turn_id = listener.turn_id
        self._listener = listener
        self._projector = projector

    async def next(self) -> Sequence[NumberedEvent] | None:
        """Wait for the next events; None after the last one, and once the stream has ended."""
        if self._is_over():
            return None
        events = await self._listener.next()
        return None if self._is_over() else events

    def push_to(self, sink: Push) -> None:
        """Allow passing events to ``sink`` while ``next`` waits; it may refuse them."""

        def push(events: Sequence[NumberedEvent]) -> bool:
            # What is refused is returned by ``next``, which thus learns of the end at once.
            return not self._is_over() and sink(events) and not self._is_over()

        self._listener.push_to(push)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _is_over(self) -> bool:
        return self._projector.has_ended
