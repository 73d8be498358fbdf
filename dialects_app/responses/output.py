"""Converts the output of a response to events of items: texts, calls, approvals. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from chat.stream.encoding import ascii_json, without_leading_space
from dialects_app.responses.frames import Frames
from dialects_app.responses.open_text import OpenText
from dialects_app.responses.output_items import (
    Item,
    Status,
    client_call_item,
    error_of,
    request_item,
    server_call_item,
)
from dialects_app.responses.tool_forms import ToolForm
from dialects_app.shared.ids import item_id
from sessions_app.messages import ToolCall


class Output:
    """The growing output of a response.

    Args:
        frames: Receives its events.
        session_id: The session, which is part of the ids of items.
        seals: Whether reasoning is sealed.
    """

    def __init__(self, frames: Frames, session_id: str, *, seals: bool = False) -> None:
        self._frames = frames
        self._seals = seals
        self._session_id = session_id
        self._items: list[Item] = []
        self._names: Counter[str] = Counter()
        self._text: OpenText | None = None
        self._reasoning: OpenText | None = None
        self._calls: dict[str, int] = {}
        self._void: set[int] = set()

    @property
    def items(self) -> list[Item]:
        """The current items, without discarded ones, which keep their places in the stream."""
        items = list(self._items)
        for text in (self._reasoning, self._text):
            if text is not None:
                items[text.output_index] = text.item()
        return [item for index, item in enumerate(items) if index not in self._void]

    # Texts

    def say(self, message_id: str, literal: str) -> None:
        """Send a piece of the answer's text, a JSON string."""
        if self._text is None:
            begun = without_leading_space(literal)
            if begun is None:
                return
            self._end_reasoning("completed")
            self._text = self._begin_text("msg", message_id)
            literal = begun
        self._text.add(literal)

    def think(self, message_id: str, literal: str) -> None:
        """Send a piece of the reasoning, a JSON string."""
        if self._reasoning is None:
            begun = without_leading_space(literal)
            if begun is None:
                return
            self._reasoning = self._begin_text("rs", message_id)
            literal = begun
        self._reasoning.add(literal)

    def add_saved(self, message_id: str, text: str, *, is_reasoning: bool) -> None:
        """Send a saved text, including white space at its beginning."""
        if is_reasoning:
            self._reasoning = self._begin_text("rs", message_id)
            self._reasoning.add_saved(text)
        else:
            self._end_reasoning("completed")
            self._text = self._begin_text("msg", message_id)
            self._text.add_saved(text)

    def complete_text(self, message_id: str, text: str) -> None:
        """Send the rest of a saved answer that was streamed in part or not at all."""
        if self._text is not None:
            self._text.complete(text)
        elif not self._names[item_id("msg", self._session_id, message_id)]:
            self.say(message_id, ascii_json(text))

    def end_texts(self, status: Status = "completed") -> None:
        """Send the end of the answer's reasoning and text."""
        self._end_reasoning("completed" if self._text is not None else status)
        text, self._text = self._text, None
        if text is not None:
            self._items[text.output_index] = text.end(status)

    def discard(self, message_id: str) -> None:
        """Leave the ended texts of an answer out, which is asked for again."""
        names = tuple(item_id(kind, self._session_id, message_id) for kind in ("msg", "rs"))
        self._void.update(i for i, item in enumerate(self._items) if item["id"].startswith(names))

    def _end_reasoning(self, status: Status) -> None:
        reasoning, self._reasoning = self._reasoning, None
        if reasoning is not None:
            self._items[reasoning.output_index] = reasoning.end(status)

    def _begin_text(self, kind: Any, message_id: str) -> OpenText:
        name = self._unique(item_id(kind, self._session_id, message_id))
        is_reasoning = kind == "rs"
        text = OpenText(
            self._frames,
            name,
            len(self._items),
            is_reasoning=is_reasoning,
            is_sealed=is_reasoning and self._seals,
        )
        self._items.append({})
        text.begin()
        return text

    # Calls

    def begin_call(self, call: ToolCall, confirmation_id: str | None = None) -> None:
        """Send a call that the server runs.

        Args:
            call: The call.
            confirmation_id: The id of its approval, if any.
        """
        self.end_texts()
        item = server_call_item(call, self._session_id, confirmation_id=confirmation_id)
        item = {**item, "id": self._unique(item["id"])}
        place = self._add(item, arguments="")
        self._calls[call.id] = place["output_index"]
        self._frames.add("response.mcp_call.in_progress", **place)
        arguments = item["arguments"]
        self._frames.add("response.mcp_call_arguments.delta", **place, delta=arguments)
        self._frames.add("response.mcp_call_arguments.done", **place, arguments=arguments)

    def runs(self, call_id: str) -> bool:
        """Return whether a call was started and not ended."""
        return call_id in self._calls

    def place_of(self, call_id: str) -> dict[str, Any] | None:
        """Return the item fields of events about a running call."""
        index = self._calls.get(call_id)
        return None if index is None else _place(index, self._items[index])

    def end_call(self, call_id: str, text: str, *, failed: bool) -> None:
        """Send the outcome of a call that the server ran, or could not run."""
        index = self._calls.pop(call_id)
        if failed:
            result: Mapping[str, Any] = {"error": error_of(text), "status": "failed"}
        else:
            result = {"output": text, "status": "completed"}
        item = self._items[index] = {**self._items[index], **result}
        self._frames.add(f"response.mcp_call.{item['status']}", **_place(index, item))
        self._done(index)

    def ask(self, call: ToolCall, confirmation_id: str) -> None:
        """Send a request for approval of a call."""
        self.end_texts()
        item = request_item(call, confirmation_id, self._session_id)
        if self._unique(item["id"]) == item["id"]:  # else it was asked already
            self._done(self._add(item)["output_index"])

    def hand_over(self, call: ToolCall, form: ToolForm | None = None) -> None:
        """Send a call that the client should run.

        Args:
            call: The call.
            form: The form of its tool; None for a plain function.
        """
        self.end_texts()
        item = client_call_item(call, self._session_id, form)
        item = {**item, "id": self._unique(item["id"])}
        if form is not None and form.is_custom:
            kind, field, more = "response.custom_tool_call_input", "input", {}
        else:
            kind, field = "response.function_call_arguments", "arguments"
            more = {"name": item["name"]}
        place = self._add(item, **{field: ""}, status="in_progress")
        self._frames.add(f"{kind}.delta", **place, delta=item[field])
        self._frames.add(f"{kind}.done", **place, **{field: item[field]}, **more)
        self._done(place["output_index"])

    def end(self, status: Status) -> None:
        """End the output; running calls get no result."""
        self.end_texts(status)
        for index in self._calls.values():
            self._items[index] = {**self._items[index], "status": "incomplete"}
            self._done(index)
        self._calls.clear()

    def _add(self, item: Item, **at_first: Any) -> dict[str, Any]:
        """Add an item, some of whose fields differ at first; return its index."""
        index = len(self._items)
        self._items.append(item)
        self._frames.add(
            "response.output_item.added", output_index=index, item={**item, **at_first}
        )
        return _place(index, item)

    def _done(self, index: int) -> None:
        self._frames.add("response.output_item.done", output_index=index, item=self._items[index])

    def _unique(self, name: str) -> str:
        """Return the name, with a number if it was used before: a model may think twice."""
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}_{self._names[name]}"


def _place(index: int, item: Item) -> dict[str, Any]:
    return {"item_id": item["id"], "output_index": index}
