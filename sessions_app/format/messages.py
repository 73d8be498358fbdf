"""Reads and writes runs of the messages in a session's file. Pure."""

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
        may_stay: Whether their text may stay as it is: it has all that we write, as we read it.
    """

    messages: list[Message]
    may_stay: bool


def read_messages(data: bytes, *, first: int, session_id: str, created_at: str) -> Piece:
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
        return Piece(*decode_ours(array))
    except (msgspec.ValidationError, Malformed):
        raws = enumerate(msgspec.json.decode(array), first)
        read = [read_message(raw, index, session_id, created_at) for index, raw in raws]
        return Piece(read, may_stay=False)


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
