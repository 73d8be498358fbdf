"""Converts a turn's events to the events of a streamed message (a ``Projector``). Pure.

One block is open at a time. Each round of a turn has blocks of its own; calls of this server's
tools are not shown.
"""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from chat.stream.encoding import ascii_json, text_literal
from chat.stream.events import (
    ClientToolCall,
    Done,
    Failed,
    ToolContinuationStarted,
    TurnResumed,
    TurnStarted,
)
from chat.stream.numbered_event import NumberedEvent
from dialects_app.messages.ending import UsageOut, stop_reason_of, usage_of
from dialects_app.messages.errors import error_body
from dialects_app.shared.ending import ending_of
from dialects_app.shared.sealed import seal
from dialects_app.shared.shown_calls import arguments_text
from dialects_app.shared.turn_fold import TurnFold

Kind = Literal["text", "thinking"]


class MessageProjector(TurnFold):
    """Converts events to those of one message.

    Args:
        message_id: The id of the message.
        model: The requested model name.
        input_tokens: The estimated tokens of the request, which the message begins with.
        shows_reasoning: Whether reasoning is sent as text, or only sealed.

    Attributes:
        error: The error that ended the turn, if any.
    """

    heartbeat = b'event: ping\ndata: {"type":"ping"}\n\n'

    _NEW: ClassVar[dict[Kind, Any]] = {
        "text": {"type": "text", "text": ""},
        "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    }

    def __init__(
        self, message_id: str, model: str, *, input_tokens: int = 0, shows_reasoning: bool = True
    ) -> None:
        super().__init__()
        self._message_id = message_id
        self._asked_model = model
        self._input_tokens = input_tokens
        self._shows_reasoning = shows_reasoning
        self.error: Failed | None = None
        self._frames: list[str] = []
        self._open: Kind | None = None
        self._thoughts: list[str] = []
        self._index = 0
        self._calls = 0
        self._delta = ""

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return the events of the message for the next ones of the turn. The hot path."""
        frames = self._frames = []
        for event in events:
            name = event.name
            if name == "content_delta":
                if self._open != "text":
                    self._begin("text")
                frames.append(f"{self._delta}{text_literal(event.data)}}}}}\n\n")
            elif name == "thinking_delta":
                if self._open != "thinking":
                    self._begin("thinking")
                literal = text_literal(event.data)
                self._thoughts.append(literal)
                if self._shows_reasoning:
                    frames.append(f"{self._delta}{literal}}}}}\n\n")
            else:
                self.follow(event)
        return "".join(frames).encode("ascii")

    def _begin(self, kind: Kind) -> None:
        """Begin a block of text or reasoning, after the end of the one before."""
        self._end()
        self._open = kind
        self._send("content_block_start", index=self._index, content_block=self._NEW[kind])
        self._delta = (
            'event: content_block_delta\ndata: {"type":"content_block_delta","index":'
            f'{self._index},"delta":{{"type":"{kind}_delta","{kind}":'
        )

    def _end(self) -> None:
        """End the open block, if there is one; reasoning is sealed."""
        if self._open is None:
            return
        if self._open == "thinking":
            # Joined before they are decoded: two pieces may each have half a character.
            text = json.loads('"' + "".join(each[1:-1] for each in self._thoughts) + '"')
            delta = {"type": "signature_delta", "signature": seal(text)}
            self._send("content_block_delta", index=self._index, delta=delta)
            self._thoughts.clear()
        self._send("content_block_stop", index=self._index)
        self._index += 1
        self._open = None

    def _on_turn_started(self, started: TurnStarted) -> None:
        super()._on_turn_started(started)
        self._send(
            "message_start",
            message={
                "id": self._message_id,
                "type": "message",
                "role": "assistant",
                "model": self._asked_model,
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": UsageOut(input_tokens=self._input_tokens, output_tokens=1),
            },
        )
        self._frames.append('event: ping\ndata: {"type":"ping"}\n\n')

    def _on_tool_continuation_start(self, going_on: ToolContinuationStarted) -> None:
        super()._on_tool_continuation_start(going_on)
        self._end()

    def _on_turn_resumed(self, resumed: TurnResumed) -> None:
        super()._on_turn_resumed(resumed)
        if resumed.keeps == "results":
            self._end()

    def _on_client_tool_call(self, call: ClientToolCall) -> None:
        self._end()
        self._calls += 1
        block = {"type": "tool_use", "id": call.tool_call_id, "name": call.tool_name, "input": {}}
        self._send("content_block_start", index=self._index, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": arguments_text(call.arguments)}
        self._send("content_block_delta", index=self._index, delta=delta)
        self._send("content_block_stop", index=self._index)
        self._index += 1

    def _on_done(self, _: Done) -> None:
        self._end()
        ending = ending_of(self.ending, calls=self._calls, said_something=self._index > 0)
        if ending.error is not None:
            self.error = ending.error
            body = error_event(self.error, f"req_{self.turn_id}")
            self._frames.append(f"event: error\ndata: {ascii_json(body)}\n\n")
            return
        reason = stop_reason_of(ending.finish_reason, self.ending)
        delta = {"stop_reason": reason, "stop_sequence": None}
        self._send("message_delta", delta=delta, usage=usage_of(ending.usage))
        self._send("message_stop")

    def _send(self, event: str, **fields: Any) -> None:
        self._frames.append(f"event: {event}\ndata: {ascii_json({'type': event, **fields})}\n\n")


def error_event(error: Failed, request_id: str) -> dict[str, Any]:
    """Return the error of a stream, whose type says whether a client tries again."""
    retryable = bool(error.details.get("retryable"))
    kind = "api_error" if retryable else "invalid_request_error"
    details = {**error.details, "retryable": retryable}
    return error_body(kind, error.code, error.message, request_id=request_id, details=details)
