"""Journals of turns, and chunks as clients read them."""

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from chat.stream.events import (
    Cancelled,
    ClientToolCall,
    ContentDelta,
    Done,
    Event,
    Failed,
    MessageComplete,
    StatusChanged,
    ThinkingContentDelta,
    ToolCallDelta,
    ToolCallStarted,
    ToolContinuationStarted,
    ToolResultReceived,
    TurnStarted,
)
from dialects_app.chat_completions.projector import ChunkProjector
from sessions_app.messages import Usage
from tests.unit.dialects_app.turns import numbered

TURN = "0199f3a2b4c51f2e3d4c"
MODEL = "qwen3:14b"
USAGE = Usage(input_tokens=12, output_tokens=30, cached_tokens=4, reasoning_tokens=7)

STARTED = TurnStarted(turn_id=TURN, session_id="a1b2c3d4e5", model=MODEL)
CONTINUED = ToolContinuationStarted()
DONE = Done(session_id="a1b2c3d4e5")


def said(text: str) -> ContentDelta:
    return ContentDelta(content=text)


def thought(text: str) -> ThinkingContentDelta:
    return ThinkingContentDelta(content=text)


def ours(index: int = 0) -> list[Event]:
    """Return what a call of one of the server's tools shows."""
    what: dict[str, Any] = {"tool_name": "add", "call_index": index, "tool_call_id": f"own_{index}"}
    return [
        ToolCallDelta(
            call_index=index, tool_call_id=f"own_{index}", arguments='{"a"', tool_name="add"
        ),
        ToolCallStarted(**what, arguments={"a": 1}),
        StatusChanged(state="waiting_for_tool"),
        ToolResultReceived(
            **what, success=True, result="3", error_message=None, summary="3", execution_time_ms=1
        ),
    ]


def theirs(name: str = "get_weather", index: int = 0, **arguments: Any) -> ClientToolCall:
    return ClientToolCall(
        tool_name=name, arguments=arguments, call_index=index, tool_call_id=f"call_{index}"
    )


def complete(done_reason: str | None = "stop", **fields: Any) -> MessageComplete:
    return MessageComplete(
        **{
            "message_id": "ab12cd34ef",
            "model": MODEL,
            "eval_count": 1,
            "prompt_eval_count": 1,
            "context_window": {},
            "content": "",
            "thinking": None,
            "tool_calls": [],
            "turn_id": TURN,
            "done_reason": done_reason,
            "usage": {},
            "turn_usage": USAGE,
            **fields,
        }
    )


def cancelled() -> Cancelled:
    return Cancelled(
        content="", thinking=None, model=MODEL, message_id="ab12cd34ef", turn_usage=USAGE
    )


def failed(code: str = "NETWORK_ERROR", message: str = "It broke off.", **details: Any) -> Failed:
    return Failed(code=code, message=message, details={"retryable": True, **details})


def projected(events: Iterable[Event], *, includes_usage: bool = False) -> bytes:
    projector = ChunkProjector(TURN, MODEL, includes_usage=includes_usage)
    return projector.feed(numbered(events))


def deltas_of(chunks: Sequence[Any]) -> list[Any]:
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]


def text_of(chunks: Sequence[Any], name: str = "content") -> str:
    return "".join(delta.get(name) or "" for delta in deltas_of(chunks))


def finish_reasons(chunks: Sequence[Any]) -> list[str]:
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk.get("choices")]
    return [reason for reason in reasons if reason is not None]


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
SPEECH = st.lists(TEXTS.map(said) | TEXTS.map(thought), max_size=6)
ROUNDS = st.lists(SPEECH, min_size=1, max_size=3)
ENDS = st.sampled_from(
    [
        complete(),
        complete("length"),
        cancelled(),
        failed(),
        failed("TURN_LIMIT_REACHED"),
        failed("CONTENT_REFUSED", "Nicht \N{SNOWMAN} so."),
        None,
    ]
)


@st.composite
def journals(draw: st.DrawFn) -> list[Event]:
    """Draw all events of a turn: rounds with the server's own tools between them, and an end."""
    events: list[Event] = [STARTED]
    for index, speech in enumerate(draw(ROUNDS)):
        if index:
            events += [*ours(index), CONTINUED]
        events += speech
    end = draw(ENDS)
    if isinstance(end, MessageComplete):
        for index in range(draw(st.integers(0, 3))):
            events.append(theirs(f"tool_{index}", index, text=draw(TEXTS)))
    return [*events, *([] if end is None else [end]), DONE]
