"""Makes a request of each operation of the OpenAPI document, with ids of a certain owner."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.functional.conftest import MODEL, block

Ids = Mapping[str, str]

_HEXADECIMAL = re.compile(r"[0-9a-f]{8,}")
_VOLATILE = re.compile(r"(?<=_ms\":)[\d.]+|[0-9a-f]{8,}|\d{9,}|\d{4}-\d\d-\d\dT[\d:.]+Z?|\d+\.\d+")
_SHARED = {
    "agent_name": "scribe",
    "tool_name": "note",
    "model_name": MODEL,
    "filename": "none.md",
    "name": "none",
    "message_index": "0",
}
"""Values of parameters that name nothing of an owner."""

_SAID = block("Hello!")  # else the answer would be another one each time
_HELLO = {"role": "user", "content": _SAID}
_CALL = {"role": "tool", "id": "m2", "toolCallId": "call_1", "content": "x"}

BODIES: dict[str, Callable[[Ids], Any]] = {
    "chat": lambda ids: {"session_id": ids["session_id"], "message": _SAID},
    "chat_stream": lambda ids: {
        "session_id": ids["session_id"],
        "message_id": ids["message_id"],
        "message": _SAID,
    },
    "chat_in_session": lambda ids: {
        "message": _SAID,
        "attachments": [{"id": ids["attachment_id"]}],
        "when_busy": "interrupt",
    },
    "chat_stream_in_session": lambda ids: {"message_id": ids["message_id"]},
    "confirm_tool": lambda ids: {"confirmation_id": ids["confirmation_id"], "approved": True},
    "edit_queued_message": lambda _: {"content": "changed"},
    "summarize_session": lambda _: {},
    "create_session": lambda _: {"model": MODEL},
    "delete_sessions": lambda ids: {"session_ids": [ids["session_id"]], "force": True},
    "update_session": lambda _: {"title": "changed"},
    "set_system_prompt": lambda _: {"system_prompt": "changed"},
    "fork_session": lambda _: {},
    "edit_message": lambda ids: {
        "content": "changed",
        "message_id": ids["message_id"],
        "attachments": [{"id": ids["attachment_id"]}],
    },
    "hide_message": lambda ids: {"hidden": True, "message_id": ids["message_id"]},
    "choose_variant": lambda ids: {"variant_id": ids["message_id"]},
    "create_system_prompt": lambda _: {"filename": "new.md", "content": "New."},
    "update_system_prompt": lambda _: {"content": "New."},
    "create_profile": lambda _: {"name": "new", "model": MODEL},
    "update_profile": lambda _: {"model": MODEL},
    "create_key": lambda _: {"owner": "ben"},
    "openai_chat_completion": lambda ids: {
        "model": MODEL,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "file", "file": {"file_id": ids["attachment_id"]}}],
            }
        ],
    },
    "openai_count_input_tokens": lambda ids: {
        "model": MODEL,
        "input": _SAID,
        "previous_response_id": ids["response_id"],
    },
    "openai_compact_response": lambda ids: {
        "model": MODEL,
        "previous_response_id": ids["response_id"],
    },
    "openai_create_response": lambda ids: {
        "model": MODEL,
        "input": [{"type": "item_reference", "id": ids["item_id"]}],
        "previous_response_id": ids["response_id"],
    },
    "openai_create_conversation": lambda ids: {
        "items": [{"type": "item_reference", "id": ids["item_id"]}]
    },
    "openai_update_conversation": lambda _: {"metadata": {"topic": "changed"}},
    "openai_create_conversation_items": lambda _: {"items": [{"type": "message", **_HELLO}]},
    "anthropic_create_message": lambda _: {"model": MODEL, "max_tokens": 9, "messages": [_HELLO]},
    "anthropic_count_tokens": lambda _: {"model": MODEL, "messages": [_HELLO]},
    "ui_chat": lambda ids: {
        "id": ids["session_id"],
        "model": MODEL,
        "message": {
            "id": ids["message_id"],
            "role": "assistant",
            "parts": [
                {
                    "type": "dynamic-tool",
                    "toolName": "note",
                    "toolCallId": "call_1",
                    "state": "approval-responded",
                    "approval": {"id": ids["confirmation_id"], "approved": True},
                }
            ],
        },
    },
    "run_agui": lambda ids: {
        "threadId": ids["busy_id"],
        "runId": "run-2",
        "messages": [],
        "tools": [],
        "context": [],
        "resume": [
            {
                "interruptId": ids["confirmation_id"],
                "status": "resolved",
                "payload": {"approved": True},
            }
        ],
        "forwardedProps": {"model": MODEL},
    },
}
"""The bodies of operations, with ids in each place where one fits."""

QUESTIONS = ("/confirm-tool", "/confirmations", "/inbox", "/cancel")
"""Operations on the session that waits for a person."""


@dataclass(frozen=True)
class Ask:
    """A request.

    Attributes:
        operation: Its name in the OpenAPI document.
        scope: The scope that it needs.
    """

    operation: str
    scope: str
    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def unknown(ids: Ids) -> dict[str, str]:
    """Return ids of the same form that nothing has."""
    turned = {name: _HEXADECIMAL.sub(_turned, value) for name, value in ids.items()}
    return {**turned, "file": "of nobody"}


def asks(document: Mapping[str, Any], ids: Ids) -> Iterator[Ask]:
    """Yield a request of each operation, with these ids in each place where one fits."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield _ask(path, method, operation, ids)


def more_asks(ids: Ids) -> Iterator[Ask]:
    """Yield further requests: of protocols without such a document, and with names of clients."""
    session = {"X-Mochi-Session-Id": ids["session_id"]}
    hello = {"model": MODEL, "messages": [_HELLO], "stream": False}
    yield Ask("chat", "chat", "POST", "/ollama/api/chat", headers=session, json=hello)
    for tool, arguments in (
        ("search_conversations", {"query": ids["secret"]}),
        ("read_conversation", {"session_id": ids["session_id"]}),
    ):
        call = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        yield Ask(tool, "read", "POST", "/mcp", json=body)
    for chat in (ids["session_id"], ids["busy_id"]):
        text = {"id": "m9", "role": "user", "parts": [{"type": "text", "text": _SAID}]}
        body = {"id": chat, "message": text, "messageId": ids["message_id"], "model": MODEL}
        yield Ask("ui_chat", "chat", "POST", "/api/v1/ui/chat", json=body)
        run = {"threadId": chat, "runId": "run-3", "messages": [], "tools": [], "context": []}
        yield Ask("run_agui", "chat", "POST", "/api/v1/agui", json=run)
        yield Ask("ui_stop", "chat", "POST", f"/api/v1/ui/chat/{chat}/stop")
        yield Ask("ui_messages", "read", "GET", f"/api/v1/ui/chat/{chat}/messages")
        yield Ask("follow_agui_thread", "read", "GET", f"/api/v1/agui/{chat}")
        conversation = {"model": MODEL, "input": _SAID, "conversation": f"conv_{chat}"}
        yield Ask("openai_create_response", "chat", "POST", "/v1/responses", json=conversation)
    for dimension in ("session", "model,owner"):
        query = {"group_by": dimension}
        yield Ask("get_usage", "read", "GET", "/api/v1/usage", params=query)


def _ask(path: str, method: str, operation: Mapping[str, Any], ids: Ids) -> Ask:
    name: str = operation["operationId"]
    ids = _fitting(path, ids)
    given = {place: {} for place in ("query", "header")}  # type: dict[str, dict[str, str]]
    filled = path
    for parameter in operation["parameters"]:
        value = _value(path, parameter["name"], ids)
        if parameter["in"] == "path":
            is_id = parameter["name"].endswith("_id")
            assert value or not is_id, f"nothing is known of {parameter['name']} of {path}"
            filled = filled.replace(f"{{{parameter['name']}}}", value or "none")
        elif value is not None:
            given[parameter["in"]][parameter["name"]] = value
    contents = operation.get("requestBody", {}).get("content", {})
    is_json = "application/json" in contents
    if contents and not is_json:
        given["header"]["Content-Type"] = "application/octet-stream"
    return Ask(
        operation=name,
        scope=operation["x-mochi-scope"],
        method=method.upper(),
        path=filled,
        params=given["query"],
        headers=given["header"],
        json=BODIES.get(name, lambda _: {})(ids) if is_json else None,
        content=ids["file"].encode() if contents and not is_json else None,
    )


def _fitting(path: str, ids: Ids) -> Ids:
    session = ids["session_id"]
    if path.endswith(QUESTIONS) or "/inbox" in path:
        session = ids["busy_id"]
    if "/agents/chats/" in path:
        session = ids["agent_chat_id"]
    return {**ids, "session_id": session}


def _value(path: str, name: str, ids: Ids) -> str | None:
    """Return the value of a parameter; None to leave it out."""
    event = f"{ids['turn_id']}:1"
    if name == "message_id" and "/inbox/" in path:
        return ids["queued_id"]
    if name == "after":
        return event if path.endswith("/stream") else None
    values = {
        **_SHARED,
        **ids,
        "key_id": "k00000000",
        "queued": ids["queued_id"],
        "Last-Event-ID": event,
        "X-Mochi-Session-Id": ids["session_id"],
        "X-OpenWebUI-Chat-Id": ids["chat_id"],
        "Idempotency-Key": "of-nothing",
        "q": ids["secret"],
    }
    if path.endswith("/events"):
        return None
    return values.get(name)


def plain(text: str, *known: Ids) -> str:
    """Return an answer without its ids and times, for comparison."""
    for ids in known:
        for name, value in sorted(ids.items(), key=lambda each: -len(each[1])):
            text = text.replace(value, f"<{name}>")
    return _VOLATILE.sub("#", text)


def _turned(found: re.Match[str]) -> str:
    """Return as many other hexadecimal digits."""
    return found[0].translate(str.maketrans("0123456789abcdef", "123456789abcdef0"))
