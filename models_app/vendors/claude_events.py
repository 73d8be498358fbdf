"""Rewrites events of Anthropic's API so that its SDK can read them (docs/decisions/0123). Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from models_app.odd_values import compact_json, text_of
from models_app.vendors.event_streams import Translator, event

_TEXTS = ("text", "thinking", "partial_json")


class ClaudeEvents(Translator):
    """Rewrites one stream."""

    answer_fields = frozenset(["message", "delta", "content_block"])

    def translate(self, value: Mapping[str, Any]) -> Iterable[str]:
        """Return the event under the name of its type, which emulators leave out."""
        kind = text_of(value.get("type"))
        self.has_ended = self.has_ended or kind == "message_stop"
        if isinstance(delta := value.get("delta"), dict):
            texts = {name: text_of(delta[name]) for name in _TEXTS if name in delta}
            value = {**value, "delta": {**delta, **texts}}
        if kind:
            yield event(compact_json(value), kind)

    def error(self, error: Mapping[str, Any]) -> str:
        """Return an error as the SDK raises it."""
        given = {"type": "api_error", **error}
        return event(compact_json({"type": "error", "error": given}), "error")

    def broken(self, data: str) -> str:
        """Return the event under a name: the SDK skips others."""
        return event(data, "content_block_delta")
