"""The messages of a session's file: a piece of its list as values, and a message as its text. Pure.

A message as we write it is decoded by msgspec into the right shape at once. Everything else (old
files, keys that nobody knows, wrong types) is read field by field, and tells what is wrong.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import orjson

from sessions_app.format.fields import Malformed, Raw, stable_id, take, take_optional, utc
from sessions_app.format.to_json import message_to_json, size_of_message
from sessions_app.messages import (
    NO_EXTRA,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    Variant,
)
from sessions_app.variants import readable_variant

_RUN_MESSAGES = 256
_RUN_LENGTH = 256 * 1024


def read_messages(data: bytes, *, first: int, session_id: str, created_at: str) -> list[Message]:
    """Return the messages of a piece of the list, without its brackets.

    Args:
        data: JSON objects, separated by commas.
        first: The index of the first of them among all messages.
        session_id: The session; ids that the file lacks are made of it.
        created_at: When the session was made: the time of messages that have none.

    Raises:
        Malformed: Something is no message.
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: This is no JSON.
    """
    array = b"[%b]" % data
    try:
        return [message.value() for message in _OURS.decode(array)]
    except (msgspec.ValidationError, Malformed):
        return [
            read_message(raw, index, session_id, created_at)
            for index, raw in enumerate(msgspec.json.decode(array), first)
        ]


def texts_of(messages: Sequence[Message]) -> Iterator[bytes]:
    """Yield messages as they stand in the file, indented: runs of some, with commas inside.

    Raises:
        TypeError: orjson refuses something in them.
    """
    run: list[Raw] = []
    size = 0
    for message in messages:
        run.append(message_to_json(message))
        size += len(message.content)
        if isinstance(message, AssistantMessage) and message.variants:
            size += size_of_message(message)
        if size > _RUN_LENGTH or len(run) == _RUN_MESSAGES:
            yield _text_of(run)
            run, size = [], 0
    if run:
        yield _text_of(run)


def _text_of(run: list[Raw]) -> bytes:
    around = orjson.dumps({"": run}, default=dict, option=orjson.OPT_INDENT_2)
    return around[len(b'{\n  "": [\n') : -len(b"\n  ]\n}")]


def read_message(raw: Any, index: int, session_id: str, created_at: str) -> Message:
    """Return a message from its decoded object, which is used up.

    Raises:
        Malformed: This is no message.
    """
    where = f"messages[{index}]"
    if not isinstance(raw, dict):
        raise Malformed(f"{where} is not an object")
    role = raw.pop("role", None)
    read_role = _ROLES.get(role) if isinstance(role, str) else None
    if read_role is None:
        raise Malformed(f"{where} has the unknown role {role!r}")
    timestamp = take_optional(raw, "timestamp", str, where)
    common = {
        # An assistant message that only calls tools has null content in some files.
        "content": take_optional(raw, "content", str, where, ""),
        "message_id": take_optional(raw, "message_id", str, where) or stable_id(session_id, index),
        "timestamp": utc(timestamp) if timestamp else created_at,
    }
    return read_role(raw, common, where)


def _read_user(raw: Raw, common: Raw, _where: str) -> UserMessage:
    return UserMessage(**common, extra=raw or NO_EXTRA)


def _read_system(raw: Raw, common: Raw, where: str) -> SystemMessage:
    source_file = take_optional(raw, "source_file", str, where)
    return SystemMessage(**common, source_file=source_file, extra=raw or NO_EXTRA)


def _read_assistant(raw: Raw, common: Raw, where: str) -> AssistantMessage:
    calls = take_optional(raw, "tool_calls", list, where, ())
    variants = _read_variants(raw, common)
    return AssistantMessage(
        **common,
        model=take_optional(raw, "model", str, where, ""),
        eval_count=take_optional(raw, "eval_count", int, where),
        prompt_eval_count=take_optional(raw, "prompt_eval_count", int, where),
        tool_calls=_read_calls(calls, where, common["message_id"]),
        thinking=take_optional(raw, "thinking", str, where),
        done_reason=take_optional(raw, "done_reason", str, where),
        cancelled=take_optional(raw, "cancelled", bool, where, default=False),
        interrupted=take_optional(raw, "interrupted", bool, where, default=False),
        variants=variants,
        extra=raw or NO_EXTRA,
    )


def _read_variants(raw: Raw, common: Raw) -> Sequence[Variant]:
    """Return the variants of an answer; what are none is kept among the unknown keys."""
    if not isinstance(raw.get("variants"), list):
        return ()
    try:
        variants = tuple(
            _read_variant(messages, f"{common['message_id']}:{number}", common["timestamp"])
            for number, messages in enumerate(copy.deepcopy(raw["variants"]))
        )
    except (Malformed, RecursionError):
        return ()
    del raw["variants"]
    return variants


def _read_variant(raw: Any, made_up_from: str, timestamp: str) -> Variant:
    if not isinstance(raw, list):
        raise Malformed("a variant is not a list")
    messages = [read_message(item, at, made_up_from, timestamp) for at, item in enumerate(raw)]
    return _checked_variant(messages)


def _checked_variant(messages: Sequence[Message]) -> Variant:
    if not readable_variant(messages):
        raise Malformed("a variant is no answer")
    return tuple(messages)


def _read_tool(raw: Raw, common: Raw, where: str) -> ToolMessage:
    return ToolMessage(
        **common,
        tool_name=take_optional(raw, "tool_name", str, where, ""),
        tool_call_id=take_optional(raw, "tool_call_id", str, where),
        extra=raw or NO_EXTRA,
    )


_ROLES: Mapping[str, Callable[[Raw, Raw, str], Message]] = {
    "user": _read_user,
    "system": _read_system,
    "assistant": _read_assistant,
    "tool": _read_tool,
}


def _read_calls(calls: Sequence[Any], where: str, message_id: str) -> tuple[ToolCall, ...]:
    return tuple(
        _read_call(call, f"{where}.tool_calls[{position}]", message_id, position)
        for position, call in enumerate(calls)
    )


def _read_call(raw: Any, where: str, message_id: str, position: int) -> ToolCall:
    if not isinstance(raw, dict):
        raise Malformed(f"{where} is not an object")
    call_id = take_optional(raw, "id", str, where)
    function = take_optional(raw, "function", dict, where)
    if function is None:
        # Some tools wrote the name and the arguments without an object around them.
        function = {key: raw.pop(key) for key in ("name", "arguments") if key in raw}
    name = take(function, "name", str, where)
    arguments = _read_arguments(function)
    extra = {**raw, "function": function} if function else raw
    return ToolCall(
        id=call_id or f"call_{stable_id(message_id, position)}",
        name=name,
        arguments=arguments,
        extra=extra or NO_EXTRA,
    )


def _read_arguments(function: Raw) -> Raw:
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


# --- As we write them -------------------------------------------------------------------------

_Filled = Annotated[str, msgspec.Meta(min_length=1)]


class _Stored(msgspec.Struct, kw_only=True, tag_field="role", forbid_unknown_fields=True, gc=False):
    content: str
    message_id: _Filled
    timestamp: _Filled


class _User(_Stored, kw_only=True, gc=False, tag="user"):
    def value(self) -> Message:
        return UserMessage(
            content=self.content, message_id=self.message_id, timestamp=utc(self.timestamp)
        )


class _System(_Stored, kw_only=True, gc=False, tag="system"):
    source_file: str | None = None

    def value(self) -> Message:
        return SystemMessage(
            content=self.content,
            message_id=self.message_id,
            timestamp=utc(self.timestamp),
            source_file=self.source_file,
        )


class _Assistant(_Stored, kw_only=True, gc=False, tag="assistant"):
    model: str = ""
    eval_count: int | None = None
    prompt_eval_count: int | None = None
    tool_calls: list[Raw] = []
    thinking: str | None = None
    done_reason: str | None = None
    cancelled: bool = False
    interrupted: bool = False
    variants: "list[list[_StoredMessage]]" = []

    def value(self) -> Message:
        return AssistantMessage(
            content=self.content,
            message_id=self.message_id,
            timestamp=utc(self.timestamp),
            model=self.model,
            eval_count=self.eval_count,
            prompt_eval_count=self.prompt_eval_count,
            tool_calls=_read_calls(self.tool_calls, "", self.message_id),
            thinking=self.thinking,
            done_reason=self.done_reason,
            cancelled=self.cancelled,
            interrupted=self.interrupted,
            variants=self._variants() if self.variants else (),
        )

    def _variants(self) -> Sequence[Variant]:
        return tuple(
            _checked_variant([message.value() for message in variant]) for variant in self.variants
        )


class _Tool(_Stored, kw_only=True, gc=False, tag="tool"):
    tool_name: str = ""
    tool_call_id: str | None = None

    def value(self) -> Message:
        return ToolMessage(
            content=self.content,
            message_id=self.message_id,
            timestamp=utc(self.timestamp),
            tool_name=self.tool_name,
            tool_call_id=self.tool_call_id,
        )


_StoredMessage = _User | _System | _Assistant | _Tool

_OURS = msgspec.json.Decoder(list[_StoredMessage])
