"""Session files: JSON bytes <-> values (seed 000 section 12.1, format 1.3). Pure.

Reading is generous and writing exact: older versions are migrated in memory (the file changes with
the next write only), newer ones keep their version, and keys that nobody here knows survive at
every level in the ``extra`` of their value.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson

from sessions_app.context_state import context_state_from_json
from sessions_app.errors import SessionCorrupt, ValidationFailed
from sessions_app.messages import (
    NO_EXTRA,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.payloads import messages_to_json, metadata_to_json
from sessions_app.session import (
    AgentSettings,
    Session,
    SessionMetadata,
    ToolSettings,
    WindowConfig,
    preview_of,
)

_KINDS: Mapping[type, str] = {
    str: "text",
    int: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}

Raw = dict[str, Any]


class _Malformed(Exception):
    """Why the file is no session, as a phrase that can stand in brackets."""


def decode(data: bytes, session_id: str) -> Session:
    """Return the session that a file holds.

    The file's name is the session's id, whatever its metadata say; ``message_count`` and
    ``preview`` are taken from the messages. What older files lack (message ids, ids of tool calls)
    is made up, the same at every reading.

    Raises:
        SessionCorrupt: The bytes are no session; ``reason`` says why.
    """
    try:
        raw = _parse(data)
        metadata = _migrate(_take(raw, "metadata", dict, ""))
        fields = _metadata_fields(metadata, session_id)
        messages = tuple(
            _decode_message(item, index, session_id, fields["created_at"])
            for index, item in enumerate(_take(raw, "messages", list, ""))
        )
    except _Malformed as error:
        raise SessionCorrupt(session_id, str(error)) from error
    fields["message_count"] = len(messages)
    fields["preview"] = preview_of(messages)
    return Session(
        metadata=SessionMetadata(**fields, extra=metadata or NO_EXTRA),
        messages=messages,
        extra=raw or NO_EXTRA,
    )


def decode_head(head: bytes, session_id: str) -> SessionMetadata | None:
    """Return the metadata from the beginning of a file, without reading its messages.

    None when that can't be done faithfully: the metadata are not first or not whole in ``head``,
    or lack what only our own writes put there (``preview``); then read the whole file.
    """
    text = head.decode("utf-8", errors="replace")
    start = text.find("{", text.find("{") + 1)
    if start < 0 or text[:start].split() not in (["{", '"metadata":'], ['{"metadata":']):
        return None
    try:
        raw, end = _HEAD_DECODER.raw_decode(text, start)
        # Surrogates are never escaped by us; half of a pair would spoil the whole listing.
        if not isinstance(raw.get("preview"), str) or "\\ud" in text[start:end].lower():
            return None
        metadata = _migrate(raw)
        fields = _metadata_fields(metadata, session_id)
    except (ValueError, RecursionError, _Malformed):
        return None
    return SessionMetadata(**fields, extra=metadata or NO_EXTRA)


_HEAD_DECODER = json.JSONDecoder()


def _parse(data: bytes) -> Raw:
    if not data.strip():
        raise _Malformed("empty")
    if not data.strip(b"\0"):
        raise _Malformed("filled with NUL bytes")
    try:
        # Not orjson, which turns integers beyond 64 bits into floats.
        raw = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _Malformed(f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise _Malformed("not a JSON object")
    return raw


def _take(raw: Raw, key: str, kind: type, where: str) -> Any:
    """Take a value that must be there out of ``raw``; what is left in the end is ``extra``."""
    value = raw.pop(key, None)
    if not isinstance(value, kind):
        found = "missing" if value is None else f"not {_KINDS[kind]}"
        raise _Malformed(f"{_place(where, key)} is {found}")
    return value


def _take_optional(raw: Raw, key: str, kind: type, where: str, default: Any = None) -> Any:
    value = raw.pop(key, None)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _Malformed(f"{_place(where, key)} is not {_KINDS[kind]}")
    return value


def _take_names(raw: Raw, key: str, where: str) -> tuple[str, ...]:
    names = _take_optional(raw, key, list, where, [])
    if not all(isinstance(name, str) for name in names):
        raise _Malformed(f"{_place(where, key)} holds something that is not text")
    return tuple(names)


def _place(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _add_tool_settings(metadata: Raw) -> Raw:
    return {"tool_settings": None, **metadata, "format_version": "1.1"}


def _add_context_window(metadata: Raw) -> Raw:
    return {"context_window_config": None, **metadata, "format_version": "1.2"}


def _add_agent_settings(metadata: Raw) -> Raw:
    return {"agent_settings": None, **metadata, "format_version": "1.3"}


_MIGRATIONS: Mapping[str, Callable[[Raw], Raw]] = {
    "1.0": _add_tool_settings,
    "1.1": _add_context_window,
    "1.2": _add_agent_settings,
}


def _migrate(metadata: Raw) -> Raw:
    version = metadata.get("format_version")
    if version is None:
        version = "1.1" if "tool_settings" in metadata else "1.0"
    while step := _MIGRATIONS.get(version) if isinstance(version, str) else None:
        metadata = step(metadata)
        version = metadata["format_version"]
    return metadata


def _metadata_fields(raw: Raw, session_id: str) -> dict[str, Any]:
    """Take the known keys out of the metadata; what is left in ``raw`` is unknown."""
    raw.pop("session_id", None)
    created_at = _take_optional(raw, "created_at", str, "metadata")
    updated_at = _take_optional(raw, "updated_at", str, "metadata", created_at)
    if updated_at is None:
        raise _Malformed("metadata.created_at is missing")
    return {
        "session_id": session_id,
        "model": _take(raw, "model", str, "metadata"),
        "created_at": _utc(created_at or updated_at),
        "updated_at": _utc(updated_at),
        "message_count": _take_optional(raw, "message_count", int, "metadata", 0),
        "summary": _take_optional(raw, "summary", dict, "metadata"),
        "summary_model": _take_optional(raw, "summary_model", str, "metadata"),
        "summary_due": _take_optional(raw, "summary_due", str, "metadata"),
        "format_version": _take(raw, "format_version", str, "metadata"),
        "tool_settings": _decode_tool_settings(
            _take_optional(raw, "tool_settings", dict, "metadata")
        ),
        "agent_settings": _decode_agent_settings(
            _take_optional(raw, "agent_settings", dict, "metadata")
        ),
        "context_window_config": _decode_window(
            _take_optional(raw, "context_window_config", dict, "metadata")
        ),
        "context_strategy": _take_optional(raw, "context_strategy", str, "metadata"),
        "context_state": context_state_from_json(
            _take_optional(raw, "context_state", dict, "metadata")
        ),
        "options": _take_optional(raw, "options", dict, "metadata"),
        "preview": _take_optional(raw, "preview", str, "metadata"),
        "forked_from": _take_optional(raw, "forked_from", dict, "metadata"),
    }


def _decode_tool_settings(raw: Raw | None) -> ToolSettings | None:
    if raw is None:
        return None
    where = "metadata.tool_settings"
    policies = _take_optional(raw, "tool_policies", dict, where, {})
    if not all(isinstance(policy, str) for policy in policies.values()):
        raise _Malformed(f"{where}.tool_policies holds something that is not text")
    return ToolSettings(
        tools=_take_names(raw, "tools", where),
        tool_group=_take_optional(raw, "tool_group", str, where),
        execution_policy=_take_optional(raw, "execution_policy", str, where, "always_confirm"),
        tool_policies=policies or NO_EXTRA,
        extra=raw or NO_EXTRA,
    )


def _decode_agent_settings(raw: Raw | None) -> AgentSettings | None:
    if raw is None:
        return None
    where = "metadata.agent_settings"
    return AgentSettings(
        enabled_agents=_take_names(raw, "enabled_agents", where),
        selection_metadata=_take_optional(raw, "selection_metadata", dict, where),
        extra=raw or NO_EXTRA,
    )


def _decode_window(raw: Raw | None) -> WindowConfig | None:
    if raw is None:
        return None
    where = "metadata.context_window_config"
    history = _take_optional(raw, "adjustment_history", list, where, [])
    if not all(isinstance(item, dict) for item in history):
        raise _Malformed(f"{where}.adjustment_history holds something that is not an object")
    return WindowConfig(
        dynamic_enabled=_take_optional(raw, "dynamic_enabled", bool, where, default=True),
        current_window=_take_optional(raw, "current_window", int, where),
        last_adjustment=_take_optional(raw, "last_adjustment", str, where),
        adjustment_history=tuple(history),
        manual_override=_take_optional(raw, "manual_override", bool, where, default=False),
        extra=raw or NO_EXTRA,
    )


def _decode_message(raw: Any, index: int, session_id: str, created_at: str) -> Message:
    where = f"messages[{index}]"
    if not isinstance(raw, dict):
        raise _Malformed(f"{where} is not an object")
    role = raw.pop("role", None)
    decode_role = _ROLES.get(role) if isinstance(role, str) else None
    if decode_role is None:
        raise _Malformed(f"{where} has the unknown role {role!r}")
    timestamp = _take_optional(raw, "timestamp", str, where)
    common = {
        # An assistant message that only calls tools has null content in some files.
        "content": _take_optional(raw, "content", str, where, ""),
        "message_id": _take_optional(raw, "message_id", str, where)
        or _stable_id(session_id, index),
        "timestamp": _utc(timestamp) if timestamp else created_at,
    }
    return decode_role(raw, common, where)


def _decode_user(raw: Raw, common: Raw, _where: str) -> UserMessage:
    return UserMessage(**common, extra=raw or NO_EXTRA)


def _decode_system(raw: Raw, common: Raw, where: str) -> SystemMessage:
    source_file = _take_optional(raw, "source_file", str, where)
    return SystemMessage(**common, source_file=source_file, extra=raw or NO_EXTRA)


def _decode_assistant(raw: Raw, common: Raw, where: str) -> AssistantMessage:
    calls = _take_optional(raw, "tool_calls", list, where, ())
    return AssistantMessage(
        **common,
        model=_take_optional(raw, "model", str, where, ""),
        eval_count=_take_optional(raw, "eval_count", int, where),
        prompt_eval_count=_take_optional(raw, "prompt_eval_count", int, where),
        tool_calls=tuple(
            _decode_call(call, f"{where}.tool_calls[{position}]", common["message_id"], position)
            for position, call in enumerate(calls)
        ),
        thinking=_take_optional(raw, "thinking", str, where),
        done_reason=_take_optional(raw, "done_reason", str, where),
        cancelled=_take_optional(raw, "cancelled", bool, where, default=False),
        interrupted=_take_optional(raw, "interrupted", bool, where, default=False),
        extra=raw or NO_EXTRA,
    )


def _decode_tool(raw: Raw, common: Raw, where: str) -> ToolMessage:
    return ToolMessage(
        **common,
        tool_name=_take_optional(raw, "tool_name", str, where, ""),
        tool_call_id=_take_optional(raw, "tool_call_id", str, where),
        extra=raw or NO_EXTRA,
    )


_ROLES: Mapping[str, Callable[[Raw, Raw, str], Message]] = {
    "user": _decode_user,
    "system": _decode_system,
    "assistant": _decode_assistant,
    "tool": _decode_tool,
}


def _decode_call(raw: Any, where: str, message_id: str, position: int) -> ToolCall:
    if not isinstance(raw, dict):
        raise _Malformed(f"{where} is not an object")
    call_id = _take_optional(raw, "id", str, where)
    function = _take_optional(raw, "function", dict, where)
    if function is None:
        # Some tools wrote the name and the arguments without an object around them.
        function = {key: raw.pop(key) for key in ("name", "arguments") if key in raw}
    name = _take(function, "name", str, where)
    arguments = _decode_arguments(function)
    extra = {**raw, "function": function} if function else raw
    return ToolCall(
        id=call_id or f"call_{_stable_id(message_id, position)}",
        name=name,
        arguments=arguments,
        extra=extra or NO_EXTRA,
    )


def _decode_arguments(function: Raw) -> Raw:
    """Return the arguments as an object; what is none is kept among the unknown keys."""
    arguments = function.pop("arguments", None)
    if isinstance(arguments, str):
        try:
            parsed = msgspec.json.decode(arguments)
        except (msgspec.MsgspecError, RecursionError):
            parsed = None
    else:
        parsed = arguments
    if isinstance(parsed, dict):
        return parsed
    if arguments not in (None, ""):
        function["unparsed_arguments"] = arguments
    return {}


def _stable_id(*parts: object) -> str:
    return hashlib.sha256(":".join(map(str, parts)).encode()).hexdigest()[:10]


def _utc(timestamp: str) -> str:
    """Return a time as UTC; naive ones are local time, and what is no time stays as it is."""
    if len(timestamp) == 32 and timestamp.endswith("+00:00"):
        return timestamp
    try:
        moment = datetime.fromisoformat(timestamp).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return timestamp
    return moment.isoformat(timespec="microseconds")


_READABLE = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def encode(session: Session) -> bytes:
    """Return the file of a session: readable JSON, metadata first.

    Raises:
        ValidationFailed: Something in the session can't be written as JSON.
    """
    document: Raw = {
        "metadata": metadata_to_json(session.metadata),
        "messages": messages_to_json(session.messages),
        **session.extra,
    }
    return to_json(document, readable=True)


def to_json(document: Mapping[str, Any], *, readable: bool = False) -> bytes:
    """Return JSON-compatible values as JSON, indented where people shall read it.

    Raises:
        ValidationFailed: Something can't be written as JSON.
    """
    try:
        # ``default`` is for read-only mappings, which orjson does not know.
        return orjson.dumps(document, default=dict, option=_READABLE if readable else None)
    except TypeError:
        return _to_json_slowly(document, readable=readable)


def _to_json_slowly(document: Mapping[str, Any], *, readable: bool) -> bytes:
    """Encode what orjson refuses: integers beyond 64 bits and deep nesting."""
    try:
        data = msgspec.json.encode(document, enc_hook=dict)
        return msgspec.json.format(data, indent=2) + b"\n" if readable else data
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValidationFailed(f"A value can't be written as JSON: {error}.") from error
