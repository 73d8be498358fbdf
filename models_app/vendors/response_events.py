"""Rewrites events of OpenAI's Responses so that its SDK reads them (docs/decisions/0123). Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from models_app.odd_values import compact_json, objects_of, text_of
from models_app.vendors.event_streams import Translator, event

_ENDS = frozenset(["response.completed", "response.incomplete", "response.failed"])
_TEXT = "response.output_text.delta"
_ARGUMENTS = "response.function_call_arguments.delta"
_ORDINARY = re.compile(
    r'event: (response\.output_text\.delta)\ndata: ?\{"type": ?"\1",.*\}', re.DOTALL
)
_LONGEST_ORDINARY = 4096


class ResponseEvents(Translator):
    """Rewrites one stream."""

    answer_fields = frozenset(["response", "item", "part"])

    def __init__(self) -> None:
        super().__init__()
        self._half = ""

    def is_ordinary(self, written: str) -> bool:
        """Return whether an event is text as OpenAI writes it."""
        return len(written) <= _LONGEST_ORDINARY and _ORDINARY.fullmatch(written) is not None

    def translate(self, value: Mapping[str, Any]) -> Iterable[str]:
        """Return the event under the name of its type, with text where it has a piece of text."""
        kind = text_of(value.get("type"))
        self.has_ended = self.has_ended or kind in _ENDS
        if kind.endswith(".delta"):
            text = text_of(value.get("delta"))
            if kind == _ARGUMENTS:  # which are compared with the whole, so halves are joined here
                text = self._half + text
                end = len(text) - ("\ud800" <= text[-1:] <= "\udbff")
                text, self._half = text[:end], text[end:]
            value = {**value, "delta": text}
        if kind:
            yield event(compact_json(value), kind)
        elif value.get("object") == "response":
            yield from self._whole(value)

    def _whole(self, response: Mapping[str, Any]) -> Iterable[str]:
        """Return the events of an answer that a server sends at once, as one object."""
        for number, item in enumerate(objects_of(response.get("output"))):
            place = {"output_index": number, "item_id": item.get("id"), "item": item}
            yield from self.translate({"type": "response.output_item.added", **place})
            for index, part in enumerate(objects_of(item.get("content"))):
                if part.get("type") == "output_text":
                    text = {"content_index": index, "delta": part.get("text")}
                    yield from self.translate({"type": _TEXT, **place, **text})
            yield from self.translate({"type": "response.output_item.done", **place})
        end = f"response.{response.get('status')}"
        yield from self.translate({"type": end, "response": response})

    def error(self, error: Mapping[str, Any]) -> str:
        """Return an error as the API writes it."""
        shown = {name: error.get(name) for name in ("code", "message", "param")}
        return event(compact_json({"type": "error", "sequence_number": 0, **shown}), "error")
