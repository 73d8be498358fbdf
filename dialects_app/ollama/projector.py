"""Converts a turn's events to lines of Ollama's protocol (a ``Projector``). Pure."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from chat.stream.encoding import ascii_json, text_literal
from chat.stream.events import ClientToolCall, Done, Failed
from chat.stream.numbered_event import NumberedEvent
from dialects_app.shared.ending import ending_of, failure_of
from dialects_app.shared.spoken import SpokenFold
from sessions_app.messages import Usage

_NANOSECONDS = 1_000_000
"""In a millisecond."""


class LineProjector(SpokenFold):
    """Converts events to lines of JSON, without those of the server's own tools.

    Args:
        turn_id: The turn; source of the time.
        model: The requested model name.
        generates: Whether the lines are those of ``/api/generate``.
    """

    heartbeat = b""  # a line that is not JSON ends some clients

    def __init__(self, turn_id: str, model: str, *, generates: bool = False) -> None:
        super().__init__(turn_id)
        self._lines: list[str] = []
        self._head = (
            f'{{"model":{ascii_json(model)},"created_at":"{time_of(int(turn_id[:12], 16) / 1000)}",'
        )
        say = '"response":' if generates else '"message":{"role":"assistant","content":'
        self._close = "" if generates else "}"
        self._content = f"{self._head}{say}"
        self._thinking = f'{self._content}"","thinking":'
        self._end = f'{self._close},"done":false}}\n'
        self._calls: list[Mapping[str, Any]] = []
        self._error: Failed | None = None

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return the lines for the next events. The hot path."""
        lines = self._lines = []
        for event in events:
            name = event.name
            if name == "content_delta":
                literal = text_literal(event.data)
                if self.text.needs_care:
                    literal = self.text.take(literal)
                lines.append(f"{self._content}{literal}{self._end}")
            elif name == "thinking_delta":
                literal = text_literal(event.data)
                if self.thoughts.needs_care:
                    literal = self.thoughts.take(literal)
                lines.append(f"{self._thinking}{literal}{self._end}")
            else:
                self.follow(event)
        return "".join(lines).encode("ascii")

    def whole(self, events: Sequence[NumberedEvent]) -> dict[str, Any]:
        """Return the answer as one object, from all events of a turn.

        Raises:
            MochiError: The error that ended the turn.
        """
        last: dict[str, Any]
        *pieces, last = map(json.loads, self.feed(events).splitlines())
        if "error" in last:
            raise failure_of(self._error)
        whole = last.get("message", last)
        for name in ("content", "response", "thinking"):
            texts = [text for each in pieces if (text := each.get("message", each).get(name))]
            if texts:
                whole[name] = "".join(texts)
        if self._calls:
            whole["tool_calls"] = self._calls
        return last

    def _on_client_tool_call(self, call: ClientToolCall) -> None:
        function = {
            "index": len(self._calls),
            "name": call.tool_name,
            "arguments": call.arguments,
        }
        self._calls.append({"id": call.tool_call_id, "function": function})

    def _on_done(self, done: Done) -> None:
        calls, said = len(self._calls), self.said_something
        ending = ending_of(self.ending, calls=calls, said_something=said)
        self._error = ending.refusal or ending.error
        if self._error is not None:
            self._lines.append(f'{{"error":{ascii_json(self._error.message)}}}\n')
            return
        if self._calls:
            shown = ascii_json(self._calls)
            self._lines.append(f'{self._content}"","tool_calls":{shown}{self._end}')
        reason = "length" if ending.finish_reason == "length" else "stop"
        used = self.usage_at(done)
        metrics = ascii_json(_metrics(Usage() if used is UNSET else used))
        self._lines.append(
            f'{self._content}""{self._close},"done":true,"done_reason":"{reason}",{metrics[1:]}\n'
        )


def time_of(seconds: float) -> str:
    """Return a time, in seconds since 1970, as Ollama writes it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _metrics(used: Usage) -> dict[str, int]:
    total, first = used.total_ms or 0, used.first_token_ms or 0
    return {
        "total_duration": total * _NANOSECONDS,
        "load_duration": 0,
        "prompt_eval_count": used.input_tokens or 0,
        "prompt_eval_duration": min(first, total) * _NANOSECONDS,
        "eval_count": used.output_tokens or 0,
        "eval_duration": max(total - first, 0) * _NANOSECONDS,
    }
