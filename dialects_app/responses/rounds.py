"""Reassembles the items of one model call: reasoning, text and calls. Pure."""

import msgspec

from chat.errors import MissingToolResult
from sessions_app.ids_and_clock import new_message_id
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    NO_EXTRA,
    AssistantMessage,
    Attachment,
    Message,
    ToolCall,
    ToolMessage,
)

PHASE = "phase"
"""Of messages of the assistant: how Codex tells comments from the last answer."""
_PHASES = ("commentary", "final_answer")


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a call."""

    content: str
    failed: bool = False
    attachments: tuple[Attachment, ...] = ()


class Round(msgspec.Struct):
    """An answer of a model with the outcomes of its calls, built from items."""

    thinking: list[str] = []
    text: list[str] = []
    calls: list[ToolCall] = []
    results: dict[str, Outcome] = {}
    closed: bool = False
    phase: str | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether the round has no content: clients may send back empty reasoning."""
        return not (any(self.text) or any(self.thinking) or self.calls)

    def add_text(self, text: str, phase: object) -> None:
        """Add the text of a message, and its phase if it has a known one."""
        self.text.append(text)
        self.phase = next((each for each in _PHASES if each == phase), None)

    def require_outputs(self, field: str) -> None:
        """Raise ``MissingToolResult`` if a client's call has no output."""
        for call in self.calls:
            if call.client_side and call.id not in self.results:
                missing = MissingToolResult(call.id)
                missing.details["field"] = field
                raise missing

    def give_up_questions(self) -> None:
        """Add a result to the server's calls without one."""
        for call in self.calls:
            if not call.client_side:
                self.results.setdefault(call.id, Outcome(INTERRUPTED_RESULT, failed=True))

    def messages(self, now: str) -> list[Message]:
        """Return the answer and the results of its calls, in order."""
        answer = AssistantMessage(
            content="".join(self.text),
            thinking="\n\n".join(self.thinking) or None,
            tool_calls=tuple(self.calls),
            message_id=new_message_id(),
            timestamp=now,
            extra=NO_EXTRA if self.phase is None else {PHASE: self.phase},
        )
        pairs = [(call, self.results[call.id]) for call in self.calls if call.id in self.results]
        return [answer, *(_result(call, outcome, now) for call, outcome in pairs)]


def _result(call: ToolCall, outcome: Outcome, now: str) -> ToolMessage:
    return ToolMessage(
        content=outcome.content,
        failed=outcome.failed,
        attachments=outcome.attachments,
        tool_name=call.name,
        tool_call_id=call.id,
        message_id=new_message_id(),
        timestamp=now,
    )
