"""Makes the items of a response's output. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from dialects_app.responses.tool_forms import ToolForm, free_text
from dialects_app.shared.ids import item_id
from dialects_app.shared.shown_calls import FAILED, arguments_text
from sessions_app.messages import ToolCall

Item = dict[str, Any]
Status = Literal["in_progress", "completed", "incomplete"]

SERVER_LABEL = "mochi"


def reasoning_item(name: str, text: str, *, status: Status = "completed") -> Item:
    """Return the item of an answer's reasoning, without its seal."""
    return {
        "id": name,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text}],
        "status": status,
    }


def text_item(name: str, text: str, *, status: Status = "completed") -> Item:
    """Return the item of an answer's text."""
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def client_call_item(call: ToolCall, session_id: str, form: ToolForm | None = None) -> Item:
    """Return the item of a call that the client runs.

    Args:
        call: The call.
        session_id: The session.
        form: The form of its tool; None for a plain function.
    """
    is_custom = form is not None and form.is_custom
    item = {
        "id": item_id("ctc" if is_custom else "fc", session_id, call.id),
        "type": "custom_tool_call" if is_custom else "function_call",
        "call_id": call.id,
        "name": form.name if form else call.name,
        "status": "completed",
    }
    if is_custom:
        item["input"] = free_text(call)
    else:
        item["arguments"] = arguments_text(call.arguments)
    return item if form is None or form.namespace is None else {**item, "namespace": form.namespace}


def server_call_item(call: ToolCall, session_id: str, *, confirmation_id: str | None) -> Item:
    """Return the item of a call that this server runs, before its outcome.

    Args:
        call: The call, as displayed.
        session_id: The session.
        confirmation_id: The id of its approval, if any.
    """
    return {
        "id": item_id("mcp", session_id, call.id),
        "type": "mcp_call",
        "server_label": SERVER_LABEL,
        "name": call.name,
        "arguments": arguments_text(call.arguments),
        "output": None,
        "error": None,
        "status": "in_progress",
        "approval_request_id": confirmation_id and item_id("mcpr", session_id, confirmation_id),
    }


def request_item(call: ToolCall, confirmation_id: str, session_id: str) -> Item:
    """Return the item that asks for an approval."""
    return {
        "id": item_id("mcpr", session_id, confirmation_id),
        "type": "mcp_approval_request",
        "server_label": SERVER_LABEL,
        "name": call.name,
        "arguments": arguments_text(call.arguments),
    }


def error_of(text: str) -> Item:
    """Return the error of a failed call, for an item."""
    content = [{"type": "text", "text": text.removeprefix(FAILED)}]
    return {"type": "mcp_tool_execution_error", "content": content}


def error_text(error: Any) -> str:
    """Return the text of a call's error."""
    if not isinstance(error, Mapping):
        return str(error)
    content = error.get("content")
    if isinstance(content, list):
        return "\n".join(_texts(content))
    if isinstance(content, str):
        return content
    return str(error.get("message") or error.get("type") or "the call failed")


def _texts(content: Iterable[Any]) -> Iterator[str]:
    for part in content:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]
