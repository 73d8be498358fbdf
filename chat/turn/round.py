"""Keeps the calls of a round, each with its state. Pure."""

from collections.abc import Iterable
from enum import Enum, auto

from chat.approvals.decided_calls import DecidedCall, NumberedCall
from sessions_app.messages import ToolCall


class CallState(Enum):
    """The states of a call."""

    OPEN = auto()  # whether it may run is not decided, or it waits for an approval
    ALLOWED = auto()
    RUNNING = auto()  # it was announced; it may be queued, or have a result that is not saved yet
    ENDED = auto()  # its result is saved
    LEFT_TO_CLIENT = auto()


class Round:
    """The calls of one answer, in the order of the answer."""

    def __init__(self, calls: Iterable[NumberedCall] = ()) -> None:
        self._states: dict[int, tuple[NumberedCall, CallState]] = {}
        for item in calls:
            state = CallState.LEFT_TO_CLIENT if item.call.client_side else CallState.OPEN
            self.set([item], state)

    def set(self, items: Iterable[NumberedCall], state: CallState) -> None:
        """Set the state of calls."""
        for item in items:
            self._states[item.index] = (item, state)

    @property
    def is_last_running(self) -> bool:
        """Return whether one call runs, and all others have ended."""
        states = [state for _, state in self._states.values() if state is not CallState.ENDED]
        return states == [CallState.RUNNING]

    def items(self, *states: CallState) -> list[NumberedCall]:
        """Return the calls in these states."""
        return [item for item, state in self._states.values() if state in states]

    def allowed(self) -> list[DecidedCall]:
        """Return the calls that may run and have not begun, with the decisions on them."""
        return [item for item in self.items(CallState.ALLOWED) if isinstance(item, DecidedCall)]

    def calls(self, *states: CallState) -> list[ToolCall]:
        """Return the calls in these states, without their numbers."""
        return [item.call for item in self.items(*states)]
