"""Makes the events of a turn again from its saved messages. Pure (docs/decisions/0132)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chat.stream.events import (
    Cancelled,
    ClientToolCall,
    ContentDelta,
    Event,
    Failed,
    FinishedCall,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolConfirmationRequired,
    ToolContinuationStarted,
    ToolResultReceived,
)
from chat.turn.outcome import completed
from sessions_app.messages import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    as_it_ran,
    result_content,
    unmark_cancelled,
)


def answer_events(
    answer: AssistantMessage,
    results: Sequence[ToolMessage | None],
    questions: Mapping[str, str],
    *,
    with_answered: bool = True,
) -> Iterator[Event]:
    """Yield the events of an answer and of its calls.

    Args:
        answer: The answer.
        results: The results of its calls, None for calls without one.
        questions: The pending confirmations, by call id.
        with_answered: Whether requests for approval that were answered are included.
    """
    yield ToolContinuationStarted(message_id=answer.message_id)
    if answer.thinking:
        yield ThinkingContentDelta(content=answer.thinking)
    if text := _text_of(answer):
        yield ContentDelta(content=text)
    calls = list(enumerate(zip(answer.tool_calls, results, strict=True)))
    ours = [(index, call, result) for index, (call, result) in calls if not call.client_side]
    for index, call, result in ours:
        answered = result.confirmation_id if result is not None and with_answered else None
        asked = questions.get(call.id) if result is None else answered
        if asked is not None:
            yield ToolConfirmationRequired(**_fields(call, index), confirmation_id=asked)
    for index, call, result in ours:
        if result is not None:
            yield result_event(call, result, index)
        elif call.id not in questions:
            yield ToolCallStarted(**_fields(call, index))
    for index, (call, _) in calls:
        if call.client_side:
            yield ClientToolCall(**_fields(call, index))


def result_event(call: ToolCall, result: ToolMessage, index: int = 0) -> ToolResultReceived:
    """Return the event of a call that the server ran, which no event has announced."""
    content = result_content(result)
    return FinishedCall(
        tool_name=call.name,
        tool_call_id=call.id,
        call_index=index,
        arguments=as_it_ran(call, result).arguments,
        success=not result.failed,
        result=None if result.failed else content,
        error_message=content if result.failed else None,
        execution_time_ms=0.0,
    ).event(was_announced=False, confirmation_id=result.confirmation_id)


def ending_event(
    answer: AssistantMessage | None,
    *,
    error_code: str | None = None,
    error_message: str = "",
    is_retryable: bool = True,
) -> Event:
    """Return the event of a turn's end.

    Args:
        answer: Its last answer, if any.
        error_code: Our code of the error that ended it; None if it is unknown, or there is none.
        error_message: The error message.
        is_retryable: Whether a retry may help after that error.
    """
    if answer is not None and answer.cancelled:
        return Cancelled(
            content=_text_of(answer),
            thinking=answer.thinking,
            model=answer.model,
            message_id=answer.message_id,
        )
    if error_code is not None or answer is None or answer.interrupted:
        details = {"retryable": is_retryable}
        return Failed(code=error_code or "", message=error_message, details=details)
    return completed(answer, turn_id=answer.turn_id or "", context_window={}, tool_calls=())


def _fields(call: ToolCall, index: int) -> dict[str, Any]:
    return {
        "tool_name": call.name,
        "arguments": call.arguments,
        "call_index": index,
        "tool_call_id": call.id,
    }


def _text_of(answer: AssistantMessage) -> str:
    return unmark_cancelled(answer.content) if answer.cancelled else answer.content
