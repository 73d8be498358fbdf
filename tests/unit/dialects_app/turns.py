"""Events of turns, for the tests of all projectors."""

import json
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from chat.stream.encoding import encode_event
from chat.stream.events import (
    ClientToolCall,
    ContentDelta,
    Event,
    FinishedCall,
    MessageTaken,
    ThinkingContentDelta,
    ToolCallStarted,
    TurnResumed,
)
from chat.stream.numbered_event import NumberedEvent

SESSION_ID = "0123456789"
TURN_ID = "0199f3a2b4c51f2e3d4c"


def numbered(events: Iterable[Event]) -> list[NumberedEvent]:
    """Return the events as a stream has them."""
    return [
        NumberedEvent(number, event.event, encode_event(event))
        for number, event in enumerate(events, 1)
    ]


def said(*texts: str) -> list[Event]:
    return [ContentDelta(content=text) for text in texts]


def thought(*texts: str) -> list[Event]:
    return [ThinkingContentDelta(content=text) for text in texts]


def called(call_id: str, name: str = "add", **arguments: Any) -> ToolCallStarted:
    return ToolCallStarted(tool_name=name, arguments=arguments, call_index=0, tool_call_id=call_id)


def handed_over(call_id: str, name: str = "get_weather", **arguments: Any) -> ClientToolCall:
    return ClientToolCall(tool_name=name, arguments=arguments, call_index=0, tool_call_id=call_id)


def finished(call_id: str, result: str | None = "3", **fields: Any) -> FinishedCall:
    return FinishedCall(
        **{"tool_name": "add", "arguments": {}, **fields},
        tool_call_id=call_id,
        call_index=0,
        success=result is not None,
        result=result,
        error_message=None if result is not None else "It broke.",
        execution_time_ms=1.0,
    )


def returned(call_id: str, result: str | None = "3", *, name: str = "add") -> Event:
    return finished(call_id, result, tool_name=name).event()


def chunks_of(stream: bytes) -> list[Any]:
    """Return the JSON of all chunks but the last, which is the end."""
    *frames, last, nothing = stream.decode("ascii").split("\n\n")
    assert (last, nothing) == ("data: [DONE]", "")
    assert all(frame.startswith("data: ") and "\n" not in frame for frame in frames)
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def resumed(message_id: str, *discarded: str, keeps: Any = "results") -> TurnResumed:
    """Return the event of a turn that goes on in another process."""
    return TurnResumed(
        turn_id=TURN_ID,
        session_id=SESSION_ID,
        attempt=1,
        reason="process_died",
        keeps=keeps,
        message_id=message_id,
        discarded=discarded or UNSET,
    )


def taken(message_id: str = "steer00001", content: str = "Rather 2.") -> MessageTaken:
    """Return the event of a message that came while the turn ran."""
    return MessageTaken(message_id=message_id, content=content, user_message_index=3)
