"""Declares the port that observes turns, and logs them (docs/decisions/0048)."""

import logging
from typing import Protocol

import msgspec

from chat.turn.state_machine import State
from models_app.language_model import Purpose

logger = logging.getLogger(__name__)


class TurnStart(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that starts to run.

    Attributes:
        session_id: Its session.
        turn_id: The turn.
        model: The session's model.
        purpose: ``chat``, or ``agent`` for a turn that another one called.
    """

    session_id: str
    turn_id: str
    model: str
    purpose: Purpose


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended.

    Attributes:
        start: The turn.
        state: Its final state.
        error_code: The code of the error that ended it, if one did.
        rounds: How many times its model was asked.
        tool_calls: How many tool calls were executed.
        seconds: How long it ran.
    """

    start: TurnStart
    state: State
    error_code: str | None
    rounds: int
    tool_calls: int
    seconds: float


class TurnObserver(Protocol):
    """Sees the turns of this process. Called on the event loop: must not block and must not raise.

    A turn that a dead process left has no end here; ``chat.remote.recovery`` seals it.
    """

    def turn_started(self, turn: TurnStart, /) -> None:
        """Take note of a turn whose session is claimed and whose engine starts."""
        ...

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Take note of its end, which comes once for each start."""
        ...


class TurnLog:
    """Logs turns: a line at DEBUG for the start, and one at INFO for the end."""

    def turn_started(self, turn: TurnStart, /) -> None:
        """Log the start."""
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("turn started", extra={"model": turn.model, "purpose": turn.purpose})

    def turn_ended(self, turn: TurnEnd, /) -> None:
        """Log the end."""
        extra = {
            "state": turn.state.value,
            "purpose": turn.start.purpose,
            "rounds": turn.rounds,
            "tool_calls": turn.tool_calls,
            "seconds": round(turn.seconds, 3),
        }
        if turn.error_code is not None:
            extra["code"] = turn.error_code
        logger.info("turn ended", extra=extra)


TURN_LOG = TurnLog()
