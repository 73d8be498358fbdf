"""Follows a turn through its events, as the projectors of all protocols do. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from chat.http.sse import HEARTBEAT
from chat.stream.events import (
    EVENTS,
    Cancelled,
    Done,
    Event,
    Failed,
    MessageComplete,
    ToolContinuationStarted,
    TurnResumed,
    TurnStarted,
)
from chat.stream.numbered_event import NumberedEvent
from chat.stream.usage import TurnUsage

Ending = MessageComplete | Cancelled | Failed
"""The event that ends a turn; a turn that waits for approvals has none."""


class TurnFold:
    """Follows the events of a turn.

    A subclass takes the events that it shows in methods named after them, such as ``_on_done``.

    Args:
        turn_id: The turn; by default that of its first event.

    Attributes:
        model: The model.
        message_id: The id of the current answer.
        ending: The event that ended the turn, if any.
    """

    opening = b""
    heartbeat = HEARTBEAT
    has_ended = False
    _handlers: ClassVar[Mapping[str, Callable[..., None]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        methods = {event.event: f"_on_{event.event}" for event in EVENTS}
        cls._handlers = {
            event: getattr(cls, name) for event, name in methods.items() if hasattr(cls, name)
        }

    def __init__(self, turn_id: str = "") -> None:
        self.turn_id = turn_id
        self.model = ""
        self.message_id = ""
        self.ending: Ending | None = None
        self._round = 0

    def follow(self, event: NumberedEvent) -> None:
        """Take an event of a stream; events that are not shown are not decoded."""
        handler = self._handlers.get(event.name)
        if handler is not None:
            handler(self, event.decode())

    def take(self, event: Event) -> None:
        """Take an event that was made of saved messages."""
        handler = self._handlers.get(event.event)
        if handler is not None:
            handler(self, event)

    def usage_at(self, done: Done) -> TurnUsage | UnsetType:
        """Return the usage of the turn, at its end."""
        usage = UNSET if self.ending is None else self.ending.turn_usage
        return done.turn_usage if usage is UNSET else usage

    def _on_turn_started(self, started: TurnStarted) -> None:
        self.turn_id, self.model = started.turn_id, started.model
        self._name_answer(started.message_id)

    def _on_tool_continuation_start(self, going_on: ToolContinuationStarted) -> None:
        self._round += 1
        self._name_answer(going_on.message_id)

    def _on_turn_resumed(self, resumed: TurnResumed) -> None:
        self._name_answer(resumed.message_id)

    def _on_message_complete(self, ending: Any) -> None:
        self.ending = ending

    _on_cancelled = _on_error = _on_message_complete

    def _name_answer(self, message_id: str | UnsetType) -> None:
        """Remember the id of the next answer, which is missing in journals of older servers."""
        made_up = f"{self.turn_id}{self._round}"
        self.message_id = made_up if message_id is UNSET else message_id
