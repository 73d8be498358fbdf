"""Parses tool calls, results of this server's tools, and approvals, from items. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from dialects_app.responses.errors import ItemNotFound
from dialects_app.responses.output_items import error_text
from dialects_app.responses.rounds import Outcome
from dialects_app.responses.tool_forms import TEXT_PARAMETER, sent_call
from dialects_app.shared.fields import refuse, required
from dialects_app.shared.ids import read_item_id
from dialects_app.shared.shown_calls import FAILED
from models_app.call_arguments import arguments_of
from sessions_app.messages import ToolCall

Item = Mapping[str, Any]


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about an ``mcp_approval_request``.

    Attributes:
        session_id: The session of the request.
        confirmation_id: The confirmation.
        approve: Whether the call may run.
        path: Its path in the request, for errors.
    """

    session_id: str
    confirmation_id: str
    approve: bool
    path: str


def call_of(item: Item, call_id: str, path: str) -> ToolCall:
    """Return the call of an item; arguments that are not a JSON object are kept as text."""
    text = item.get("arguments")
    if text is not None and not isinstance(text, str):
        refuse(f"{path}.arguments", f"Invalid type for '{path}.arguments': expected a string.")
    return ToolCall(id=call_id, name=required(item, "name", path), arguments=arguments_of(text))


def client_call_of(item: Item, path: str, *, is_custom: bool) -> ToolCall:
    """Return the call of an item that the client runs, with the name that models know."""
    call_id = required(item, "call_id", path)
    if is_custom:
        text = required(item, "input", path)
        call = ToolCall(
            id=call_id, name=required(item, "name", path), arguments={TEXT_PARAMETER: text}
        )
    else:
        call = call_of(item, call_id, path)
    namespace = item.get("namespace")
    return sent_call(call, namespace if isinstance(namespace, str) else None, is_custom=is_custom)


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


def approval_of(item: Item, path: str) -> ApprovalAnswer:
    """Return the decision of an ``mcp_approval_response``.

    Raises:
        ItemNotFound: Its id is not one of this server.
        ValidationFailed: It is incomplete.
    """
    asked = required(item, "approval_request_id", path)
    approve = item.get("approve")
    if not isinstance(approve, bool):
        refuse(f"{path}.approve", f"Missing required parameter: '{path}.approve'.")
    named = read_item_id(asked)
    if named is None or named.kind != "mcpr":
        raise ItemNotFound(asked, field=f"{path}.approval_request_id")
    return ApprovalAnswer(
        session_id=named.session_id,
        confirmation_id=named.name,
        approve=approve,
        path=path,
    )
