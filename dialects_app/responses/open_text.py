"""Converts streamed text or reasoning to events. Pure."""

from typing import Any

from chat.stream.encoding import ascii_json
from dialects_app.responses.frames import Frames
from dialects_app.responses.output_items import Item, Status, reasoning_item, text_item
from dialects_app.shared.sealed import seal
from dialects_app.shared.spoken import text_in

_MANY_PIECES = 512
"""Pieces of a text that are joined to one: each takes some 50 bytes of memory beside its own."""


class OpenText:
    """An item whose text is being streamed: a message, or reasoning.

    Reasoning is sent as a summary, the only form that all clients display (docs/decisions/0061).

    Args:
        frames: Receives its events.
        name: The item's id.
        output_index: Its index in the output.
        is_reasoning: Whether it is reasoning.
        is_sealed: Whether its item gets a seal, which its client sends back.
    """

    def __init__(
        self,
        frames: Frames,
        name: str,
        output_index: int,
        *,
        is_reasoning: bool = False,
        is_sealed: bool = False,
    ) -> None:
        self.output_index = output_index
        self._frames = frames
        self._pieces: list[str] = []
        self._text: str | None = None
        self._make = reasoning_item if is_reasoning else text_item
        self._name = name
        self._is_sealed = is_sealed
        self._part = "summary" if is_reasoning else "content"
        self._part_event, self._text_event = (
            ("response.reasoning_summary_part", "response.reasoning_summary_text")
            if is_reasoning
            else ("response.content_part", "response.output_text")
        )
        self._place: dict[str, Any] = {
            "item_id": name,
            "output_index": output_index,
            f"{self._part}_index": 0,
        }
        self._more: dict[str, Any] = {} if is_reasoning else {"logprobs": []}
        kind = f"{self._text_event}.delta"
        self._before = f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":'
        # The ids of messages are hex digits, so that what is spliced is ASCII and needs no escape.
        fields = ascii_json({**self._place, **self._more})
        self._after = f',{fields[1:-1]},"delta":'

    def begin(self) -> None:
        """Announce the item."""
        item = {**self._make(self._name, "", status="in_progress"), self._part: []}
        self._frames.add("response.output_item.added", output_index=self.output_index, item=item)
        self._frames.add(f"{self._part_event}.added", **self._place, part=self._a_part(""))

    def add(self, literal: str) -> None:
        """Send the next piece, a JSON string in ASCII."""
        self._text = None
        pieces = self._pieces
        pieces.append(literal[1:-1])
        if len(pieces) > _MANY_PIECES:
            pieces[:] = ["".join(pieces)]
        self._frames.add_delta(self._before, literal, self._after)

    def add_saved(self, text: str) -> None:
        """Send the whole text."""
        self.add(ascii_json(text))
        self._text = text

    @property
    def text(self) -> str:
        """The text so far, which is that of the pieces."""
        if self._text is None:
            self._text = text_in(self._pieces)
        return self._text

    def complete(self, text: str) -> None:
        """Send the rest of a saved text that was streamed in part."""
        shown = self.text
        if len(text) > len(shown) and text.startswith(shown):
            self._pieces = [ascii_json(shown)[1:-1]]
            self.add(ascii_json(text[len(shown) :]))

    def end(self, status: Status) -> Item:
        """Send the complete item and return it."""
        text = self.text
        item = self._make(self._name, text, status=status)
        if self._is_sealed:
            item["encrypted_content"] = seal(text)
        self._frames.add(f"{self._text_event}.done", **self._place, text=text, **self._more)
        self._frames.add(f"{self._part_event}.done", **self._place, part=self._a_part(text))
        self._frames.add("response.output_item.done", output_index=self.output_index, item=item)
        return item

    def item(self) -> Item:
        """Return the current item."""
        return self._make(self._name, self.text, status="in_progress")

    def _a_part(self, text: str) -> dict[str, Any]:
        part: dict[str, Any] = self._make(self._name, text)[self._part][0]
        return part
