"""Joins what is said in several rounds, for protocols with one text for a whole turn. Pure."""

import json
from collections.abc import Iterable

from chat.stream.events import ToolContinuationStarted, TurnResumed
from dialects_app.shared.turn_fold import TurnFold
from sessions_app.surrogates import join_surrogates

ROUND_BREAK = "\\n\\n"
"""Between what was said before tools ran and after: each is a message of its own in the session."""


class Spoken:
    """The state of the text or the reasoning that the next piece depends on.

    Attributes:
        is_there: Whether there was a piece.
        needs_care: Whether the next piece needs special handling.
    """

    __slots__ = ("is_there", "needs_care")

    def __init__(self) -> None:
        self.is_there = False
        self.needs_care = True

    def take(self, literal: str) -> str:
        """Return the next piece, preceded by a break if it is the first of another round."""
        broken = f'"{ROUND_BREAK}{literal[1:]}' if self.is_there else literal
        self.is_there, self.needs_care = True, False
        return broken


class SpokenFold(TurnFold):
    """Follows a turn for a subclass that shows its text and its reasoning.

    Attributes:
        text: The state of the text.
        thoughts: The state of the reasoning.
    """

    def __init__(self, turn_id: str = "") -> None:
        super().__init__(turn_id)
        self.text = Spoken()
        self.thoughts = Spoken()

    @property
    def said_something(self) -> bool:
        """Return whether there was any output."""
        return self.text.is_there or self.thoughts.is_there

    def _on_tool_continuation_start(self, going_on: ToolContinuationStarted) -> None:
        super()._on_tool_continuation_start(going_on)
        self._begin_round()

    def _on_turn_resumed(self, resumed: TurnResumed) -> None:
        super()._on_turn_resumed(resumed)
        if resumed.keeps == "results":
            self._begin_round()

    def _begin_round(self) -> None:
        self.text.needs_care = self.thoughts.needs_care = True


def text_in(pieces: Iterable[str]) -> str:
    """Return the text of pieces of JSON strings, without quotes, which may halve characters."""
    return join_surrogates(json.loads(f'"{"".join(pieces)}"'))
