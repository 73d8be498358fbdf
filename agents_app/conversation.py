"""Reads a conversation with an agent: its latest instruction, and its answers. Pure.

If an agent is the model of a session (``agent:<name>``), the session has a call of the agent for
each user message, its result, and the agent's output as the answer.
"""

import re
from collections.abc import Sequence

import msgspec

from chat.turn.usage import cost_of, sum_of, usage_of_turn
from models_app.language_model import Finished
from sessions_app.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
    unmark_cancelled,
)
from sessions_app.variants import answer_start
from tools_app.output_limit import cut_middle
from tools_app.toolset import AGENT_TOOL

_SESSION = re.compile(r"^Session ID: ([0-9a-f]+)$", re.MULTILINE)
_STOPPED = "[The agent stopped: "
_FAILED = "Error: "


class EarlierRun(msgspec.Struct, frozen=True):
    """The agent run of the previous answer.

    Attributes:
        session_id: The session that it ran in.
        said: Its answer in the conversation.
    """

    session_id: str
    said: str


class CallResult(msgspec.Struct, frozen=True):
    """The result of the agent's call for the current message.

    Attributes:
        session_id: The session that it ran in; None if it never began.
        failure: The error message, if it was interrupted; else None.
    """

    session_id: str | None
    failure: str | None


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation with an agent.

    Attributes:
        asked: The last user message.
        rules: The system prompts.
        before: Everything else that was said before, by whom it may be.
        earlier: The agent run of the last answer, if any.
        result: The result of the call for ``asked``; None without one.
    """

    asked: str
    rules: str
    before: Sequence[Message]
    earlier: EarlierRun | None
    result: CallResult | None

    def instruction(self, *, goes_on: bool) -> str:
        """Return the instruction that the agent gets.

        Args:
            goes_on: Whether it is told in the session of ``earlier``, which holds what was said.
        """
        parts = [f"<instructions>\n{self.rules}\n</instructions>"] if self.rules else []
        text = "" if goes_on else "\n\n".join(part for m in self.before for part in _tagged(m))
        if text:
            parts.append(f"<conversation>\n{cut_middle(text)}\n</conversation>")
        return "\n\n".join([*parts, self.asked])


class AgentOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The words of an agent since its last instruction.

    Attributes:
        plan: Its plan.
        text: Everything that it said while it carried that out.
        is_complete: Whether its answer is complete.
        end: The end of its last message, with the tokens and the cost of all of them.
    """

    plan: str
    text: str
    is_complete: bool
    end: Finished

    def equals(self, text: str) -> bool:
        """Return whether this text is equal except for white space."""
        return self.text.split() == text.split()


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Return the conversation with an agent from the messages of a request."""
    rules = [message.content for message in messages if isinstance(message, SystemMessage)]
    spoken = [message for message in messages if not isinstance(message, SystemMessage)]
    begin = end = answer_start(spoken)
    while begin and isinstance(spoken[begin - 1], UserMessage):
        begin -= 1
    return Conversation(
        asked="\n\n".join(message.content for message in spoken[begin:end]),
        rules="\n\n".join(rules),
        before=spoken[:begin],
        earlier=_earlier_run(spoken[:begin]),
        result=_result(spoken[end:]),
    )


def said_since_instruction(messages: Sequence[Message]) -> AgentOutput:
    """Return an agent's output from the messages of its own session."""
    since = messages[answer_start(messages) :]
    answers = [each for each in since if isinstance(each, AssistantMessage)]
    texts = [unmark_cancelled(answer.content) for answer in answers]
    text = "\n\n".join(text for text in texts[1:] if text)
    usages = [answer.usage for answer in answers if answer.usage is not None]
    return AgentOutput(
        plan=texts[0] if texts else "",
        text=text,
        is_complete=bool(text) and answers[-1].is_complete,
        end=Finished(
            (answers[-1].done_reason if answers else None) or "stop",
            sum_of([answer.prompt_eval_count for answer in answers]),
            sum_of([answer.eval_count for answer in answers]),
            cached_count=sum_of([usage.cached_tokens for usage in usages]),
            reasoning_count=sum_of([usage.reasoning_tokens for usage in usages]),
            cache_write_count=sum_of([usage.cache_write_tokens for usage in usages]),
            cost=cost_of(usage) if (usage := usage_of_turn(usages)) else None,
        ),
    )


def _earlier_run(messages: Sequence[Message]) -> EarlierRun | None:
    said: list[str] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return None
        if isinstance(message, ToolMessage) and message.tool_name == AGENT_TOOL:
            found = _SESSION.search(message.content)
            return EarlierRun(found[1], "\n\n".join(reversed(said))) if found else None
        if isinstance(message, AssistantMessage):
            said.append(message.content)
    return None


def _result(messages: Sequence[Message]) -> CallResult | None:
    """Return the last result of a call; None if it was lost in a crash."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage) or message.tool_name != AGENT_TOOL:
            continue
        if found := _SESSION.search(message.content):
            return CallResult(found[1], _failure(message))
        if message.content.startswith(_FAILED):
            return CallResult(None, message.content.removeprefix(_FAILED))
        return None
    return None


def _failure(message: ToolMessage) -> str | None:
    if not message.failed:
        return None
    _, stopped, reason = message.content.partition(_STOPPED)
    return reason[:-1] if stopped and reason.endswith("]") else message.content


def _tagged(message: Message) -> list[str]:
    if isinstance(message, ToolMessage):
        if message.tool_name == AGENT_TOOL:
            return []
        return [f"<tool_result>\n{message.content}\n</tool_result>"]
    told = [f"<{message.role}>\n{message.content}\n</{message.role}>"] if message.content else []
    if isinstance(message, AssistantMessage):
        told += [
            f"<tool_call>\n{call.name}({msgspec.json.encode(call.arguments).decode()})\n</tool_call>"
            for call in message.tool_calls
            if call.name != AGENT_TOOL
        ]
    return told
