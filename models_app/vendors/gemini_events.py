"""Rewrites the events of Gemini's API so that its SDK can read them (docs/decisions/0123). Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from models_app.call_arguments import NO_NAME, arguments_of
from models_app.odd_values import compact_json, number_of, objects_of, text_of
from models_app.vendors.event_streams import Translator, event

_PARTS = frozenset([
    "text", "functionCall", "inlineData", "toolCall", "toolResponse", "executableCode",
    "codeExecutionResult", "functionResponse", "thoughtSignature",
])  # fmt: skip
_FAILED = 502


class GeminiEvents(Translator):
    """Rewrites one stream."""

    answer_fields = frozenset(["candidates", "usageMetadata", "promptFeedback"])

    def translate(self, value: Mapping[str, Any]) -> Iterable[str]:
        """Return the event with parts that the SDK knows, and numbers for its counts."""
        rewritten = dict(value)
        if candidates := objects_of(value.get("candidates")):
            rewritten["candidates"] = [_candidate(it) for it in candidates]
            self.has_ended |= any(it.get("finishReason") for it in candidates)
        for usage in objects_of(value.get("usageMetadata")):
            rewritten["usageMetadata"] = {
                name: it if isinstance(it, list) else number_of(it) for name, it in usage.items()
            }
        yield event(compact_json(rewritten))

    def error(self, error: Mapping[str, Any]) -> str:
        """Return an error as the SDK raises it."""
        code = error.get("code")
        is_status = isinstance(code, int) and 400 <= code < 600
        given = {"status": "UNAVAILABLE", **error, "code": code if is_status else _FAILED}
        return event(compact_json({"error": given}))


def _candidate(candidate: Mapping[str, Any]) -> dict[str, Any]:
    content = candidate.get("content")
    if not isinstance(content, dict) or not isinstance(parts := content.get("parts"), list):
        return dict(candidate)
    return {**candidate, "content": {**content, "parts": [_part(it) for it in parts if it]}}


def _part(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict):
        return {"text": text_of(part)}
    if not part.keys() & _PARTS:  # shown as it is, rather than lost
        return {"text": json.dumps(part, ensure_ascii=False, separators=(",", ":"))}
    if isinstance(call := part.get("functionCall"), dict):
        arguments = dict(arguments_of(call.get("args")))
        named = {**call, "name": text_of(call.get("name")) or NO_NAME, "args": arguments}
        return {**part, "functionCall": named}
    return {**part, "text": text_of(part["text"])} if "text" in part else part
