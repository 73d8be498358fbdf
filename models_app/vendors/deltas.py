"""Translates pydantic-ai's stream events to deltas. Imported lazily, as ``history`` is."""

import json
import secrets
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from models_app.call_arguments import MAX_DEPTH, arguments_of
from models_app.errors import ContentRefused, ModelError, NetworkError, ServiceUnavailable
from models_app.finish_reasons import UNSTATED, finish_reason
from models_app.language_model import (
    CallArgumentsDelta,
    CallDelta,
    Delta,
    Finished,
    TextDelta,
    ThinkingDelta,
    Warned,
)
from models_app.vendors.shown_arguments import ShownArguments
from models_app.vendors.signatures import RESPONSES, STATE_KEY
from sessions_app.messages import ToolCall

MOST_STATE_BYTES = 256 * 1024
"""The most state that is kept with an answer's calls, in a session's file; more is dropped."""
_DONE_REASONS = {"stop": "stop", "length": "length", "tool_call": "tool_calls"}
_NO_REASON = "'{}' ended its answer without saying why: it may not be whole."


class DeltaReader:
    """Translates the events of one stream; ``finish`` returns the whole calls."""

    def __init__(self, provider: str, model: str, *, by_responses: bool = False) -> None:
        self._provider = provider
        self._model = model
        self._by_responses = by_responses
        self._thought: Hashable = None
        self._ids: dict[int, str] = {}
        self._given: set[str] = set()
        self._names: dict[int, str] = {}
        self._indices: dict[int, int] = {}
        self._shown: defaultdict[int, ShownArguments] = defaultdict(ShownArguments)

    def read(self, event: ModelResponseStreamEvent) -> Delta | None:
        """Return the delta of an event; None if it is empty."""
        match event:
            case (
                PartDeltaEvent(delta=TextPartDelta(content_delta=text))
                | PartStartEvent(part=TextPart(content=text))
            ):
                return TextDelta(text) if text else None
            case (
                PartDeltaEvent(
                    delta=ThinkingPartDelta(content_delta=thought, provider_details=details)
                )
                | PartStartEvent(part=ThinkingPart(content=thought, provider_details=details))
            ):
                return self._thinking(event.index, thought, details)
            case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=arguments)):
                return self._fragment(event.index, arguments)
            case PartStartEvent(part=ToolCallPart() as part):
                return self._begin_call(event.index, part)
            case _:
                return None

    def finish(self, response: ModelResponse) -> list[Delta]:
        """Return the last deltas: whole calls, and ``Finished``.

        Raises:
            ModelError: The answer is incomplete, or was refused.
        """
        failure = self._failure(response)
        if failure is not None:
            raise failure
        calls = [CallDelta(call) for call in self._calls(response)]
        reason = _DONE_REASONS.get(_reason(response) or "", "stop")
        if self._by_responses and calls and reason == "stop":
            reason = "tool_calls"
        details = response.provider_details or {}
        word = str(details.get("finish_reason") or "")
        notes = [Warned(_NO_REASON.format(self._provider))] if word == UNSTATED else []
        usage = response.usage
        counted = not usage.unmeasured_requests and (usage.input_tokens or usage.output_tokens)
        return [
            *calls,
            *notes,
            Finished(
                reason,
                usage.input_tokens if counted else None,
                usage.output_tokens if counted else None,
                usage.cache_read_tokens or None,
                usage.details.get("reasoning_tokens") or None,
                usage.cache_write_tokens or None,
                usage.cache_write_1h_tokens or None,
            ),
        ]

    def _thinking(self, index: int, text: str | None, details: Any) -> Delta | None:
        """Return a piece of thinking; OpenAI's summaries have parts, which are paragraphs."""
        if not self._by_responses:
            return ThinkingDelta(text) if text else None
        part: Hashable = index
        if not text:
            # What gpt-oss thinks is not in the content: the details are, or add, the new piece.
            added = details(None) if callable(details) else details
            pieces = (added or {}).get("raw_content") or [""]
            text, part = pieces[-1], (index, len(pieces))
        if not text:
            return None
        is_next = self._thought not in (None, part)
        self._thought = part
        return ThinkingDelta(f"\n\n{text}" if is_next else text)

    def _begin_call(self, index: int, part: ToolCallPart) -> Delta | None:
        self._indices.setdefault(index, len(self._indices))
        self._names[index] = part.tool_name
        self._ids[index] = self._unique(part.tool_call_id)
        return self._fragment(index, part.args)

    def _fragment(self, index: int, arguments: str | Mapping[str, Any] | None) -> Delta | None:
        # An object is complete, so there is nothing to stream: the call itself follows at once.
        if not isinstance(arguments, str) or not arguments or index not in self._ids:
            return None
        shown = self._shown[index].feed(arguments)
        if not shown:
            return None
        return CallArgumentsDelta(self._indices[index], self._ids[index], self._names[index], shown)

    def _unique(self, call_id: str) -> str:
        while not call_id or call_id in self._given:
            call_id = f"call_{secrets.token_hex(8)}"
        self._given.add(call_id)
        return call_id

    def _calls(self, response: ModelResponse) -> list[ToolCall]:
        states = _states(response.parts)
        text = json.dumps([*states.values()], ensure_ascii=False)
        is_kept = len(text.encode("utf-8", "surrogatepass")) <= MOST_STATE_BYTES
        return [
            ToolCall(
                id=self._ids.get(index) or self._unique(part.tool_call_id),
                name=part.tool_name,
                arguments=arguments_of(part.args),
                extra=self._extra(states[index]) if is_kept else {},
            )
            for index, part in enumerate(response.parts)
            if isinstance(part, ToolCallPart)
        ]

    def _extra(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        if not state:
            return {}
        api = {"api": RESPONSES} if self._by_responses else {}
        return {STATE_KEY: {"provider": self._provider, "model": self._model, **api, **state}}

    def _failure(self, response: ModelResponse) -> ModelError | None:
        facts: dict[str, Any] = {"provider": self._provider, "model": self._model}
        reason = _reason(response)
        details = response.provider_details or {}
        if reason == "content_filter":
            words = details.get("refusal") or details.get("finish_reason") or "its content filter"
            return ContentRefused(
                f"'{self._provider}' refused the content ({words}). Rephrase the message, or "
                "choose another model.",
                **facts,
            )
        if reason == "error":
            words = details.get("finish_reason") or "an error"
            return ServiceUnavailable(f"'{self._provider}' stopped with {words}.", **facts)
        if reason is None or response.state == "incomplete":
            return NetworkError(
                f"The answer of '{self._provider}' broke off: it ended without its final part.",
                **facts,
            )
        return None


def _reason(response: ModelResponse) -> str | None:
    """Return why an answer ended; by the provider's own word where the library knows none."""
    if response.finish_reason is not None:
        return response.finish_reason
    word = (response.provider_details or {}).get("finish_reason")
    reason = finish_reason(str(word)) if word else None
    return "tool_call" if reason == "tool_calls" else reason


def _states(parts: Sequence[ModelResponsePart]) -> dict[int, dict[str, Any]]:
    """Return the state to keep with each call of an answer, by its part."""
    states: dict[int, dict[str, Any]] = {}
    thinking: list[dict[str, Any]] = []
    phase: str | None = None
    has_text = False
    for index, part in enumerate(parts):
        if isinstance(part, TextPart) and part.content.strip() and not has_text:
            has_text = True
            phase = (part.provider_details or {}).get("phase")
        elif isinstance(part, ThinkingPart):
            if part.signature or part.provider_details or part.id:
                thinking.append(_state_of(part) | ({"after_text": True} if has_text else {}))
        elif isinstance(part, ToolCallPart):
            state: dict[str, Any] = {"thinking": thinking} if thinking else {}
            if part.provider_details:
                state["details"] = _jsonable(part.provider_details)
            if phase is not None:
                state["phase"] = phase
            states[index] = state
            thinking, phase = [], None
    return states


def _state_of(part: ThinkingPart) -> dict[str, Any]:
    state: dict[str, Any] = {"content": part.content}
    if part.id:
        state["id"] = part.id
    if part.signature:
        state["signature"] = part.signature
    if part.provider_details:
        state["details"] = _jsonable(part.provider_details)
    return state


def _jsonable(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details that are JSON, so that a session's file can hold them."""
    return {key: value for key, value in details.items() if _is_json(value)}


def _is_json(value: Any, depth: int = MAX_DEPTH) -> bool:
    if depth < 0:
        return False
    if isinstance(value, Mapping):
        return all(
            isinstance(key, str) and _is_json(item, depth - 1) for key, item in value.items()
        )
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return all(_is_json(item, depth - 1) for item in value)
    return value is None or isinstance(value, str | int | float | bool)
