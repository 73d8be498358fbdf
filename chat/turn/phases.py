"""Declares the port for the prompts of a turn in two phases, as agents run it. Pure."""

from collections.abc import Sequence
from typing import Protocol

from sessions_app.messages import Message


class PhasePrompts(Protocol):
    """Adds the prompts of both phases to the history, for one request each."""

    def planning(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return what the model is sent to write a plan, which it does without tools."""
        ...

    def executing(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return what the model is sent to carry the plan out."""
        ...
