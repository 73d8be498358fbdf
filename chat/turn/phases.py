"""How the rounds of a turn follow each other, where it is not a plain conversation's. Pure."""

from collections.abc import Sequence
from typing import Protocol

from sessions_app.messages import Message


class TurnScript(Protocol):
    """Decides what each round sends, and whether an answer without tool calls is the last one.

    One object serves one turn and may keep count of its rounds.
    """

    def request(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return what the model is sent of the history, with what is added for this round only."""
        ...

    def offers_tools(self) -> bool:
        """Whether this round's model may call tools."""
        ...

    def goes_on(self, *, asked_for_tools: bool) -> bool:
        """Move on to the next round; whether there is one although no tools were asked for."""
        ...


class PlainScript:
    """A conversation: the history is sent as it is, and an answer without tool calls is final."""

    def request(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return the history."""
        return history

    def offers_tools(self) -> bool:
        """Always."""
        return True

    def goes_on(self, *, asked_for_tools: bool) -> bool:  # noqa: ARG002 - the port's
        """Never without tool calls."""
        return False
