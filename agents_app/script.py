"""The two phases of an agent's run: first a plan without tools, then its execution. Pure."""

from collections.abc import Sequence

import msgspec

from sessions_app.messages import Message, UserMessage


class AgentScript:
    """How the rounds of an agent follow each other (seed 000 section 14.6).

    Prompts are added to what is sent and never to the session. Models often announce what they
    are about to do before they do it, so a first answer without tool calls is not the last one.

    Args:
        planning: Added to the last user message while the agent plans.
        execution: Sent as a last user message while it executes.

    Attributes:
        is_planning: Whether it is in its first phase.
    """

    def __init__(self, *, planning: str, execution: str) -> None:
        self.is_planning = True
        self._planning = planning
        self._execution = execution
        self._iterations = 0

    def resume(self) -> None:
        """Begin where a suspended run was: it has a plan, and has asked for tools."""
        self.is_planning = False
        self._iterations = 1

    def request(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return what is sent: the history and the phase's prompt."""
        if not self.is_planning:
            return [*history, UserMessage(content=self._execution, message_id="", timestamp="")]
        messages = list(history)
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if isinstance(message, UserMessage):
                content = f"{message.content}\n\n{self._planning}"
                messages[index] = msgspec.structs.replace(message, content=content)
                break
        return messages

    def offers_tools(self) -> bool:
        """Whether the phase is the one with tools."""
        return not self.is_planning

    def goes_on(self, *, asked_for_tools: bool) -> bool:
        """Move on; true after the plan, and after a first answer that only announces."""
        if self.is_planning:
            self.is_planning = False
            return True
        self._iterations += 1
        return self._iterations == 1 and not asked_for_tools
