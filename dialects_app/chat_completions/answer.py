"""Builds the response to a request without streaming, from the events of a stream."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from chat.errors import TurnCrashed
from chat.stream.encoding import text_literal
from chat.stream.events import ClientToolCall, ContentDelta, Done, ThinkingContentDelta
from chat.stream.numbered_event import NumberedEvent
from dialects_app.chat_completions.usage import UsageOut, usage_of
from dialects_app.shared.ending import FinishReason, ending_of, failure_of
from dialects_app.shared.ids import completion_id, created_at
from dialects_app.shared.shown_calls import arguments_text
from dialects_app.shared.spoken import Spoken, SpokenFold, text_in


class FunctionOut(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the client runs; ``arguments`` is JSON as text."""

    name: str
    arguments: str


class ToolCallOut(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the client runs."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionOut


class CompletionMessageOut(msgspec.Struct, frozen=True, kw_only=True):
    """The answer.

    Attributes:
        content: The text; null if there are only tool calls.
        refusal: Why the provider refused the content, if it did.
        tool_calls: The calls that the client should run, if any.
        reasoning_content: The reasoning, if there is any.
        reasoning: The same, since clients read either name.
    """

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: str | None = None
    tool_calls: Sequence[ToolCallOut] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET


class ChoiceOut(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a completion, and its finish reason."""

    index: Literal[0] = 0
    message: CompletionMessageOut
    logprobs: None = None
    finish_reason: FinishReason


class CompletionOut(msgspec.Struct, frozen=True, kw_only=True):
    """A chat completion; ``model`` is the requested name."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: Sequence[ChoiceOut]
    usage: UsageOut


class _Answer(SpokenFold):
    """Gathers the answer from a turn's events."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.reasonings: list[str] = []
        self.calls: list[ToolCallOut] = []

    def feed(self, events: Sequence[NumberedEvent]) -> None:
        """Add the next events."""
        for event in events:
            if event.name == ContentDelta.event:
                self.texts.append(_piece(self.text, event))
            elif event.name == ThinkingContentDelta.event:
                self.reasonings.append(_piece(self.thoughts, event))
            else:
                self.follow(event)

    def _on_client_tool_call(self, call: ClientToolCall) -> None:
        function = FunctionOut(name=call.tool_name, arguments=arguments_text(call.arguments))
        self.calls.append(ToolCallOut(id=call.tool_call_id, function=function))


def completion_of(turn_id: str, model: str, events: Sequence[NumberedEvent]) -> CompletionOut:
    """Return the answer of a turn, from all its events.

    Raises:
        MochiError: The error that ended the turn.
    """
    answer = _Answer()
    answer.feed(events)
    if not events or events[-1].name != Done.event:
        raise TurnCrashed
    calls = answer.calls
    ending = ending_of(answer.ending, calls=len(calls), said_something=answer.said_something)
    if ending.error is not None:
        raise failure_of(ending.error)
    text, reasoning = text_in(answer.texts), text_in(answer.reasonings) or UNSET
    message = CompletionMessageOut(
        content=text if text or not calls else None,
        refusal=ending.refusal.message if ending.refusal else None,
        tool_calls=calls or UNSET,
        reasoning_content=reasoning,
        reasoning=reasoning,
    )
    return CompletionOut(
        id=completion_id(turn_id),
        created=created_at(turn_id),
        model=model,
        choices=[ChoiceOut(message=message, finish_reason=ending.finish_reason)],
        usage=usage_of(ending.usage),
    )


def _piece(spoken: Spoken, event: NumberedEvent) -> str:
    """Return a piece of a text as JSON without quotes."""
    literal = text_literal(event.data)
    return (spoken.take(literal) if spoken.needs_care else literal)[1:-1]
