"""Converts a turn's events to chunks of a streamed chat completion (a ``Projector``). Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chat.stream.encoding import ascii_json, text_literal
from chat.stream.events import ClientToolCall, Done, Failed, TurnStarted
from chat.stream.numbered_event import NumberedEvent
from dialects_app.chat_completions.usage import usage_of
from dialects_app.shared.ending import Ending, ending_of
from dialects_app.shared.errors import error_object
from dialects_app.shared.ids import completion_id, created_at
from dialects_app.shared.shown_calls import arguments_text
from dialects_app.shared.spoken import SpokenFold

DONE = "data: [DONE]\n\n"


class ChunkProjector(SpokenFold):
    """Converts events to chunks, without those of the server's own tools.

    Args:
        turn_id: The turn; source of id and time.
        model: The requested model name.
        includes_usage: Whether the last chunk has the usage.
    """

    def __init__(self, turn_id: str, model: str, *, includes_usage: bool = False) -> None:
        super().__init__(turn_id)
        self._includes_usage = includes_usage
        self._chunks: list[str] = []
        self._head = (
            f'data: {{"id":"{completion_id(turn_id)}","object":"chat.completion.chunk",'
            f'"created":{created_at(turn_id)},"model":{ascii_json(model)},"choices":['
        )
        self._tail = ',"usage":null}\n\n' if includes_usage else "}\n\n"
        self._delta = f'{self._head}{{"index":0,"delta":{{'
        self._close = f'}},"finish_reason":null}}]{self._tail}'
        self._content = f'{self._delta}"content":'
        self._reasoning = f'{self._delta}"reasoning_content":'
        self._calls = 0

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        """Return the chunks for the next events. The hot path."""
        chunks = self._chunks = []
        for event in events:
            name = event.name
            if name == "content_delta":
                literal = text_literal(event.data)
                if self.text.needs_care:
                    literal = self.text.take(literal)
                chunks.append(f"{self._content}{literal}{self._close}")
            elif name == "thinking_delta":
                literal = text_literal(event.data)
                if self.thoughts.needs_care:
                    literal = self.thoughts.take(literal)
                chunks.append(f'{self._reasoning}{literal},"reasoning":{literal}{self._close}')
            else:
                self.follow(event)
        return "".join(chunks).encode("ascii")

    def _on_turn_started(self, started: TurnStarted) -> None:
        super()._on_turn_started(started)
        self._chunks.append(f'{self._delta}"role":"assistant","content":""{self._close}')

    def _on_client_tool_call(self, call: ClientToolCall) -> None:
        index, self._calls = self._calls, self._calls + 1
        named = {"name": call.tool_name, "arguments": ""}
        begun = {"index": index, "id": call.tool_call_id, "type": "function", "function": named}
        self._chunks.append(self._chunk({"tool_calls": [begun]}))
        told = {"index": index, "function": {"arguments": arguments_text(call.arguments)}}
        self._chunks.append(self._chunk({"tool_calls": [told]}))

    def _on_done(self, _: Done) -> None:
        ending = ending_of(self.ending, calls=self._calls, said_something=self.said_something)
        self._chunks += [*self._last_chunks(ending), DONE]

    def _last_chunks(self, ending: Ending) -> Iterator[str]:
        if ending.error is not None:
            yield f'data: {{"error":{ascii_json(_error(ending.error))}}}\n\n'
            return
        if ending.refusal is not None:
            yield self._chunk({"refusal": ending.refusal.message})
        yield f'{self._delta}}},"finish_reason":"{ending.finish_reason}"}}]{self._tail}'
        if self._includes_usage:
            yield f'{self._head}],"usage":{ascii_json(usage_of(ending.usage))}}}\n\n'

    def _chunk(self, delta: Mapping[str, Any]) -> str:
        return f"{self._delta}{ascii_json(delta)[1:-1]}{self._close}"


def _error(error: Failed) -> dict[str, Any]:
    retryable = bool(error.details.get("retryable"))
    return error_object(error.code, error.message, retryable=retryable, details=error.details)
