"""Builds the answer to a request without streaming, from the events that a stream would have."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chat.stream.numbered_event import NumberedEvent
from dialects_app.messages.projector import MessageProjector
from dialects_app.shared.ending import failure_of

_DATA = "data: "


def whole_message(projector: MessageProjector, events: Sequence[NumberedEvent]) -> dict[str, Any]:
    """Return the message of a turn, from all its events.

    Raises:
        MochiError: The error that ended the turn.
    """
    message: dict[str, Any] = {}
    pieces: dict[str, list[str]] = {}
    for data in _data_of(projector.feed(events)):
        match data["type"]:
            case "message_start":
                message = data["message"]
            case "content_block_start":
                message["content"].append(data["content_block"])
                pieces = {}
            case "content_block_delta":
                _, (field, piece) = data["delta"].items()
                pieces.setdefault(field, []).append(piece)
            case "content_block_stop":
                message["content"][-1] |= _fields_of(pieces)
            case "message_delta":
                message |= data["delta"] | {"usage": data["usage"]}
            case "message_stop":
                return message
    raise failure_of(projector.error)


def _fields_of(pieces: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    joined = {field: "".join(texts) for field, texts in pieces.items()}
    arguments = joined.pop("partial_json", None)
    return joined if arguments is None else {"input": json.loads(arguments)}


def _data_of(stream: bytes) -> Iterator[Any]:
    for line in stream.decode("ascii").split("\n"):
        if line.startswith(_DATA):
            yield json.loads(line.removeprefix(_DATA))
