"""Adds the prompts of an agent's two phases: a plan without tools, then its execution. Pure."""

from collections.abc import Sequence

import msgspec

from sessions_app.messages import Message, UserMessage
from sessions_app.variants import answer_start


class PhasePrompts:
    """Adds an agent's prompts to what is sent, and never to the session.

    Args:
        planning: Added to the last user message while the agent plans.
        execution: Sent as a last user message while it executes.

    Attributes:
        is_planning: Whether the last request asked for the plan.
    """

    def __init__(self, *, planning: str, execution: str) -> None:
        self.is_planning = False
        self._planning = planning
        self._execution = execution

    def planning(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return the history, with the planning prompt in its last user message."""
        self.is_planning = True
        messages = list(history)
        if index := answer_start(messages):
            message = messages[index - 1]
            content = f"{message.content}\n\n{self._planning}"
            messages[index - 1] = msgspec.structs.replace(message, content=content)
        return messages

    def executing(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return the history and the execution prompt."""
        self.is_planning = False
        return [*history, UserMessage(content=self._execution, message_id="", timestamp="")]
