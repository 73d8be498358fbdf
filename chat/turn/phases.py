"""Declares the port for the prompts of turns with two phases, as agents have. Pure."""

from collections.abc import Sequence
from typing import Protocol

from sessions_app.messages import Message


class PhasePrompts(Protocol):
    """Adds the prompts of both phases to the history, for one request each."""

    def planning(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return the messages that make the model write a plan, without tools."""
        ...

    def executing(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return the messages that make the model carry out the plan."""
        ...
