"""Rewrites chunks of Chat Completions to OpenAI's form, whatever a server makes of them. Pure.

The SDK sees no other form (docs/decisions/0123).

What can be understood is kept; an error, a page or words in the place of an answer become an error.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from models_app.call_arguments import NO_NAME
from models_app.finish_reasons import UNSTATED, finish_reason
from models_app.odd_values import call_of, compact_json, number_of, objects_of, text_of
from models_app.vendors.call_pieces import CallPiece, CallPieces
from models_app.vendors.event_streams import DONE, Translator, event

_REASONING = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
_NEEDED = {"reasoning.text": "type", "reasoning.summary": "summary", "reasoning.encrypted": "data"}
_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
_NAMES = "id|object|model|provider|system_fingerprint|service_tier|obfuscation|p"
_FACT = rf'(?:"(?:{_NAMES})": ?{_STRING}|"created": ?\d+|"usage": ?null)'
_OF_CHOICE = r'(?:"index": ?0|"(?!index)\w+": ?null)'
_ORDINARY = re.compile(
    rf'data: ?\{{(?:{_FACT}, ?)*"choices": ?\[\{{(?:{_OF_CHOICE}, ?)*'
    rf'"delta": ?\{{(?:"role": ?"assistant", ?)?"content": ?(?!""){_STRING}(?:, ?"\w+": ?null)*\}}'
    rf"(?:, ?{_OF_CHOICE})*\}}\](?:, ?{_FACT})*\}}"
)
"""An event of text as OpenAI writes it, with its fields in any order."""
_REQUIRED = ('"id":', '"object":', '"created":', '"model":', '"index":')
_LONGEST_ORDINARY = 4096


class ChatChunks(Translator):
    """Rewrites one stream.

    Args:
        is_openrouter: Whether the SDK's model knows OpenRouter's own fields, and checks them.
    """

    answer_fields = frozenset(["choices", "usage"])

    def __init__(self, *, is_openrouter: bool = False) -> None:
        super().__init__()
        self._is_openrouter = is_openrouter
        self._calls = CallPieces()
        self._usage: dict[str, Any] = {}
        self._head: dict[str, Any] = {
            "object": "chat.completion.chunk",
            "id": "",
            "created": 0,
            "model": "",
        }
        self._has_output = False

    def is_ordinary(self, written: str) -> bool:
        """Return whether an event is text as OpenAI writes it; the first one sets the fields."""
        return (
            self._has_output
            and len(written) <= _LONGEST_ORDINARY
            and _ORDINARY.fullmatch(written) is not None
            and all(name in written for name in _REQUIRED)
        )

    def done(self) -> Iterable[str]:
        """Return the end of the answer, with a reason if it has none."""
        if self._has_output and not self.has_ended:
            yield self._chunk({}, finish=UNSTATED)
        yield from self.end()
        yield event(DONE)

    def end(self) -> Iterable[str]:
        """Return what the whole answer has: calls without a name, and the usage."""
        for number in self._calls.nameless():
            function = {"name": NO_NAME, "arguments": ""}
            yield self._chunk({"tool_calls": [{"index": number, "function": function}]})
        self._calls = CallPieces()
        if self._usage and self.has_ended:
            yield event(compact_json({**self._head, "choices": [], "usage": self._usage}))
            self._usage = {}

    def translate(self, value: Mapping[str, Any]) -> Iterable[str]:
        """Return the chunks in the place of one: one for each piece."""
        for name in ("id", "model", "provider"):
            if isinstance(value.get(name), str):
                self._head[name] = value[name]
        if type(value.get("created")) is int:
            self._head["created"] = value["created"]
        _keep_largest(self._usage, value.get("usage"))
        choices = value.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return
        _keep_largest(self._usage, choice.get("usage"))
        for delta in self._deltas(choice):
            self._has_output = True
            yield self._chunk(delta)
        if (word := _word(choice.get("finish_reason"))) is not None:
            yield self._chunk({}, finish=word)

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> str:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
        if finish is not None:
            self.has_ended = True
            if self._is_openrouter:
                choice |= {"finish_reason": finish_reason(finish), "native_finish_reason": finish}
        return event(compact_json({**self._head, "choices": [choice]}))

    def _deltas(self, choice: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        delta = choice.get("delta")
        if not delta and not self._has_output:  # a server that does not stream
            delta = choice.get("message") or choice.get("text")
        if not isinstance(delta, dict):
            delta = {"content": delta}
        yield from self._reasoning(delta)
        for kind, text in _texts(delta.get("content")):
            yield {kind: text}
        if refusal := text_of(delta.get("refusal")):
            yield {"refusal": refusal}
        for item in objects_of(delta.get("tool_calls")):
            yield self._call(item)
        if isinstance(legacy := delta.get("function_call"), dict):
            yield self._call({"function": legacy})

    def _reasoning(self, delta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        details = delta.get("reasoning_details")
        if self._is_openrouter and isinstance(details, list) and all(map(_is_openrouters, details)):
            if details:
                yield {"reasoning_details": details}
                return
            details = None
        for name in _REASONING:
            if text := text_of(delta.get(name)):
                known = name if name in _REASONING[:2] else _REASONING[0]
                yield {known: text}
                return
        if text := text_of(details):
            yield {_REASONING[0]: text}

    def _call(self, item: Mapping[str, Any]) -> dict[str, Any]:
        call_id, name, arguments = call_of(item)
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else compact_json(arguments)
        index = number_of(item.get("index"))
        placed = self._calls.place(CallPiece(index, call_id, name, arguments))
        if isinstance(item.get("extra_content"), dict):  # signatures of Google's models
            placed["extra_content"] = item["extra_content"]
        return {"tool_calls": [placed]}


def _texts(content: Any) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a delta's content, in order, each with the name of its field."""
    for part in content if isinstance(content, list) else [content]:
        is_thought = isinstance(part, dict) and part.get("type") in ("thinking", "reasoning")
        if text := text_of(part):
            yield ("reasoning_content" if is_thought else "content"), text


def _word(value: Any) -> str | None:
    text = "" if isinstance(value, bool) else text_of(value)
    return None if text.lower() in ("", "null", "none") else text


def _is_openrouters(detail: Any) -> bool:
    """Return whether a detail of reasoning is one that the SDK's model accepts."""
    kind = detail.get("type") if isinstance(detail, dict) else None
    field = _NEEDED.get(kind) if isinstance(kind, str) else None
    return field is not None and isinstance(detail.get(field), str)


def _keep_largest(kept: dict[str, Any], told: Any) -> None:
    """Merge counts, which grow from chunk to chunk: adding them up would count them twice."""
    if not isinstance(told, dict):
        return
    for name, value in told.items():
        if isinstance(value, dict):
            inner = kept.get(name)
            kept[name] = inner if isinstance(inner, dict) else {}
            _keep_largest(kept[name], value)
        elif isinstance(value, bool):
            kept[name] = value
        elif (number := number_of(value)) is not None:
            before = kept.get(name)
            kept[name] = number if not isinstance(before, int | float) else max(before, number)
