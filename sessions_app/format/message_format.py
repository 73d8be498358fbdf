"""Converts messages to JSON values and back, as their structs declare them. Pure.

Messages in the current format are decoded by msgspec in one call. All others (old files, unknown
keys, wrong types) are read field by field, with precise errors.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from operator import or_
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

from sessions_app.decoding import convert_to, decoder_of
from sessions_app.format.fields import Malformed, Raw, stable_id, take, take_optional, utc
from sessions_app.format.json_pieces import PIECE_BYTES
from sessions_app.messages import (
    MESSAGE_TYPES,
    NO_EXTRA,
    AssistantMessage,
    Message,
    ToolCall,
    UserMessage,
    Variant,
)

_MESSAGE_BYTES = 250
"""The typical size of a message in bytes, without its text."""

_FIRST_KEYS = (
    "content",
    "source_file",
    "model",
    "tool_name",
    "tool_call_id",
    "message_id",
    "timestamp",
)
"""The first keys, in this order; the others follow as declared."""
_ALWAYS_WRITTEN = frozenset(_FIRST_KEYS) - {"tool_call_id"} | {"eval_count", "prompt_eval_count"}
"""The keys of the first formats; later keys are omitted if they have their default."""


def read_message(raw: Any, index: int, session_id: str, created_at: str) -> Message:
    """Convert a decoded JSON object, which is modified, to a message.

    Raises:
        Malformed: The object is not a valid message.
    """
    where = f"messages[{index}]"
    if not isinstance(raw, dict):
        raise Malformed(f"{where} is not an object")
    role = raw.pop("role", None)
    role_format = _BY_ROLE.get(role) if isinstance(role, str) else None
    if role_format is None:
        raise Malformed(f"{where} has the unknown role {role!r}")
    timestamp = take_optional(raw, "timestamp", str, where)
    common = {
        # An assistant message that only calls tools has null content in some files.
        "content": take_optional(raw, "content", str, where, ""),
        "message_id": take_optional(raw, "message_id", str, where) or stable_id(session_id, index),
        "timestamp": utc(timestamp) if timestamp else created_at,
    }
    return role_format.from_raw(raw, common, where)


def decode_ours(array: bytes) -> tuple[list[Message], bool]:
    """Decode a JSON list of messages in the current format.

    Returns:
        The messages, and whether their text may stay: False if a time was converted to UTC.

    Raises:
        Malformed, msgspec.MsgspecError, UnicodeDecodeError, RecursionError: The list has messages
            in another format.
    """
    if not [key for key in _CONVERTED if key in array]:
        try:
            plain = _DECLARED.decode(array)
        except msgspec.ValidationError:
            plain = []
        are_ours = [m.message_id and m.timestamp and utc(m.timestamp) is m.timestamp for m in plain]
        if plain and all(are_ours):
            return plain, True
    found = _STORED.decode(array)
    messages = [_BY_STORED[type(stored)].from_stored(stored) for stored in found]
    times = [message.timestamp for message in messages]
    return messages, times == [stored.timestamp for stored in found]


def message_to_json(message: Message) -> Raw:
    """Convert a message to its JSON value in files and HTTP responses."""
    return _BY_TYPE[type(message)].to_json(message)


def messages_to_json(messages: Sequence[Message]) -> list[Raw]:
    """Convert messages to their JSON values in files."""
    return [message_to_json(message) for message in messages]


def size_of_message(message: Message, *, variants: bool = True) -> int:
    """Estimate a message's size in bytes; fields with arbitrary JSON count as a full piece."""
    if message.extra:
        size = PIECE_BYTES
    else:
        size = len(message.content) + _MESSAGE_BYTES
        if isinstance(message, AssistantMessage):
            size += PIECE_BYTES if message.tool_calls else len(message.thinking or "")
    if variants and isinstance(message, AssistantMessage):
        size += sum(size_of_message(each) for variant in message.variants for each in variant)
    return size


# --- Types of fields --------------------------------------------------------------------------


class _FieldType(NamedTuple):
    """Converts the values of one type to their stored form.

    Attributes:
        stored: The type of the JSON value, for msgspec; equal to the field's type if no conversion
            is needed.
        kind: The class of valid JSON values; with another value the session can't be read. None if
            invalid values are kept as unknown keys.
        read: Converts a JSON value, given the message's id and time, and its path for errors.
        write: Converts to a JSON value; None if no conversion is needed.
    """

    stored: Any
    kind: type | None
    read: Callable[[Any, Raw, str], Any] | None = None
    write: Callable[[Any], Any] | None = None


def _field_type(declared: Any) -> _FieldType:
    if declared in _FIELD_TYPES:
        return _FIELD_TYPES[declared]
    return _FieldType(
        stored=declared,
        kind=None,
        read=lambda value, _fields, _where: convert_to(value, declared),
        write=partial(msgspec.to_builtins, enc_hook=dict),
    )


def _read_variants(raw: Any, fields: Raw, _where: str) -> Sequence[Variant]:
    if not isinstance(raw, list):
        raise Malformed("the variants are not a list")
    return tuple(
        _read_variant(messages, f"{fields['message_id']}:{number}", fields["timestamp"])
        for number, messages in enumerate(copy.deepcopy(raw))
    )


def _read_variant(raw: Any, made_up_from: str, timestamp: str) -> Variant:
    if not isinstance(raw, list):
        raise Malformed("a variant is not a list")
    messages = [read_message(item, at, made_up_from, timestamp) for at, item in enumerate(raw)]
    kinds = {type(message) for message in messages}
    if AssistantMessage not in kinds or UserMessage in kinds:
        raise Malformed("a variant is not an answer")
    return tuple(messages)


def _variants_to_json(variants: Sequence[Variant]) -> list[list[Raw]]:
    return [messages_to_json(variant) for variant in variants]


def _read_calls(calls: Sequence[Any], fields: Raw, where: str) -> Sequence[ToolCall]:
    message_id = fields["message_id"]
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
        # Some programs wrote the name and the arguments without a ``function`` object.
        function = {key: raw.pop(key) for key in ("name", "arguments") if key in raw}
    name = take(function, "name", str, where)
    arguments = _read_arguments(function)
    client_side = raw.pop("client_side") if raw.get("client_side") is True else False
    extra = {**raw, "function": function} if function else raw
    return ToolCall(
        id=call_id or f"call_{stable_id(message_id, position)}",
        name=name,
        arguments=arguments,
        client_side=client_side,
        extra=extra or NO_EXTRA,
    )


def _read_arguments(function: Raw) -> Raw:
    """Return the arguments if they are an object; keep other values as unknown keys."""
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


def _calls_to_json(calls: Sequence[ToolCall]) -> list[Raw]:
    return [_call_to_json(call) for call in calls]


def _call_to_json(call: ToolCall) -> Raw:
    function = {"name": call.name, "arguments": call.arguments, **call.extra.get("function", {})}
    document = {**call.extra, "id": call.id, "function": function}
    if call.client_side:
        document["client_side"] = True
    return document


_FIELD_TYPES: Mapping[Any, _FieldType] = {
    str: _FieldType(str, str),
    str | None: _FieldType(str | None, str),
    int | None: _FieldType(int | None, int),
    bool: _FieldType(bool, bool),
    Sequence[ToolCall]: _FieldType(list[Raw], list, _read_calls, _calls_to_json),
    Sequence[Variant]: _FieldType(list[Any], None, _read_variants, _variants_to_json),
}


# --- Roles ------------------------------------------------------------------------------------

_Filled = Annotated[str, msgspec.Meta(min_length=1)]
_REQUIRED: Mapping[str, Any] = {"content": str, "message_id": _Filled, "timestamp": _Filled}


class _RoleFormat:
    """Converts the messages of one role, as declared by their struct.

    Attributes:
        stored_type: A struct that accepts only messages in the current format.
        converted: The fields whose JSON values need conversion.
    """

    def __init__(self, message_type: type[Message]) -> None:
        declared = {field.name: field for field in msgspec.structs.fields(message_type)}
        shared = UserMessage.__struct_fields__  # fields of one role come first, as in older formats
        names = [name for name in declared if name not in _REQUIRED and name != "extra"]
        names.sort(key=shared.__contains__)
        self._message_type: Callable[..., Message] = message_type
        types = {name: _without_notes(declared[name].type) for name in names}
        self._types = {name: _field_type(types[name]) for name in names}
        self._defaults = {name: declared[name].default for name in names}
        self._read = [
            (name, kind.read)
            for name, kind in self._types.items()
            if kind.read and kind.stored is not types[name]
        ]
        self.converted = [name for name, _ in self._read]
        self._written = [
            (
                name,
                _ANY if name in _ALWAYS_WRITTEN else self._defaults[name],
                self._types[name].write if name in self._types else None,
            )
            for name in dict.fromkeys((*_FIRST_KEYS, *names))
            if name in declared
        ]
        stored = [(name, kind.stored, self._defaults[name]) for name, kind in self._types.items()]
        self.stored_type: type[msgspec.Struct] = msgspec.defstruct(
            f"Stored{message_type.__name__}",
            [*_REQUIRED.items(), *stored],
            kw_only=True,
            tag_field="role",
            tag=message_type.role,
            forbid_unknown_fields=True,
            gc=False,
        )

    def from_stored(self, stored: msgspec.Struct) -> Message:
        """Convert an object that msgspec has validated."""
        fields = msgspec.structs.asdict(stored)
        fields["timestamp"] = utc(fields["timestamp"])
        for name, read in self._read:
            if fields[name] is not self._defaults[name]:
                fields[name] = read(fields[name], fields, "")
        return self._message_type(**fields)

    def from_raw(self, raw: Raw, common: Raw, where: str) -> Message:
        """Convert any object, which is modified; ``common`` has the fields already taken."""
        fields = dict(common)
        for name, kind in self._types.items():
            if kind.kind is not None:
                value = take_optional(raw, name, kind.kind, where, self._defaults[name])
                fields[name] = kind.read(value, common, where) if kind.read else value
            elif name in raw and kind.read is not None:
                with suppress(Malformed, msgspec.ValidationError, RecursionError):
                    fields[name] = kind.read(raw[name], common, where)
                    del raw[name]
        return self._message_type(**fields, extra=raw or NO_EXTRA)

    def to_json(self, message: Message) -> Raw:
        """Convert a message to its JSON object."""
        document: Raw = {"role": message.role}
        for name, left_out, write in self._written:
            value = getattr(message, name)
            if value is left_out:
                continue
            if write is not None:
                if not value:
                    continue
                value = write(value)
            document[name] = value
        if message.extra:
            document.update(message.extra)
        return document


def _without_notes(declared: Any) -> Any:
    return get_args(declared)[0] if get_origin(declared) is Annotated else declared


_ANY = object()
"""A default that equals no value, for fields that are always written."""

_BY_TYPE = {message_type: _RoleFormat(message_type) for message_type in MESSAGE_TYPES}
_BY_ROLE = {message_type.role: found for message_type, found in _BY_TYPE.items()}
_BY_STORED = {found.stored_type: found for found in _BY_TYPE.values()}
_STORED = decoder_of(list[reduce(or_, _BY_STORED)])  # type: ignore[misc]

_DECLARED = decoder_of(list[reduce(or_, MESSAGE_TYPES)])  # type: ignore[misc]
_CONVERTED = {f'"{name}"'.encode() for found in _BY_TYPE.values() for name in found.converted}
"""The keys whose values need conversion: a list without them is decoded directly to messages."""
