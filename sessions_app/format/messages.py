"""Reads and writes runs of messages in a session's file. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import orjson

from sessions_app.format.fields import Malformed, Raw
from sessions_app.format.message_format import (
    decode_ours,
    message_to_json,
    read_message,
    size_of_message,
)
from sessions_app.messages import AssistantMessage, Message

_RUN_MESSAGES = 256
_RUN_LENGTH = 256 * 1024


class Piece(NamedTuple):
    """Some messages of a file.

    Attributes:
        messages: The messages.
        may_stay: Whether their text can be reused: encoding them would give the same content.
    """

    messages: list[Message]
    may_stay: bool


def read_messages(data: bytes, *, first: int, session_id: str, created_at: str) -> Piece:
    """Decode a run of messages.

    Args:
        data: JSON objects, separated by commas, without brackets.
        first: The index of the first one among all messages.
        session_id: The session, from which missing ids are derived.
        created_at: The session's creation time, used for messages without a time.

    Raises:
        Malformed: An object is not a valid message.
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: The data are not valid JSON.
    """
    array = b"[%b]" % data
    try:
        return Piece(*decode_ours(array))
    except (msgspec.ValidationError, Malformed):
        raws = enumerate(msgspec.json.decode(array), first)
        read = [read_message(raw, index, session_id, created_at) for index, raw in raws]
        return Piece(read, may_stay=False)


def texts_of(messages: Sequence[Message]) -> Iterator[bytes]:
    """Yield runs of messages as indented JSON objects, separated by commas within a run.

    Raises:
        TypeError: orjson refuses a value.
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
