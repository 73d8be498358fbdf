"""Parses tool calls, and results of this server's tools, from items. Pure."""

from collections.abc import Mapping
from typing import Any

from dialects_app.responses.content import required
from dialects_app.responses.output_items import error_text
from dialects_app.responses.rounds import Outcome
from dialects_app.shared.fields import refuse
from dialects_app.shared.ids import read_item_id
from dialects_app.shared.shown_calls import FAILED
from models_app.call_arguments import arguments_of
from sessions_app.messages import ToolCall

Item = Mapping[str, Any]


def call_of(item: Item, call_id: str, path: str, *, client_side: bool = False) -> ToolCall:
    """Return the call of an item; arguments that are not a JSON object are kept as text."""
    text = item.get("arguments")
    if text is not None and not isinstance(text, str):
        refuse(f"{path}.arguments", f"Invalid type for '{path}.arguments': expected a string.")
    return ToolCall(
        id=call_id,
        name=required(item, "name", path),
        arguments=arguments_of(text),
        client_side=client_side,
    )


def server_call_id(item: Item, path: str) -> str:
    """Return the call id of an ``mcp_call``, from the item's id."""
    name = required(item, "id", path)
    named = read_item_id(name)
    return name if named is None or named.kind != "mcp" else named.name


def outcome_of(item: Item, path: str) -> Outcome | None:
    """Return the outcome of an ``mcp_call``; None if it is missing."""
    output, error = item.get("output"), item.get("error")
    if isinstance(output, str):
        return Outcome(output, failed=error is not None)
    if output is not None:
        refuse(f"{path}.output", f"Invalid type for '{path}.output': expected a string.")
    if error is None:
        return None
    return Outcome(f"{FAILED}{error_text(error)}", failed=True)
