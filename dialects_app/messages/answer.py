"""Builds the answer to a request without streaming, from the events that a stream would have."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from chat.errors import TurnCrashed, TurnFailed
from chat.service import OpenTurn
from dialects_app.messages.projector import MessageProjector
from dialects_app.shared.refused_turns import events_of_refused

_DATA = "data: "


async def whole_message(turn: OpenTurn, projector: MessageProjector) -> Mapping[str, Any]:
    """Wait for the end of a turn and return its message.

    Events are read after the end, so that tokens don't wake a task.

    Raises:
        MochiError: The error that ended the turn.
    """
    outcome = await turn.finished()
    frames: list[bytes] = []
    while (events := await turn.listener.next()) is not None:
        frames.append(projector.feed(events))
    if not any(frames):  # it ended before its first event
        error = outcome.error or TurnCrashed()
        frames.append(projector.feed(events_of_refused(turn, projector.model, error)))
    return folded(b"".join(frames))


def folded(stream: bytes) -> Mapping[str, Any]:
    """Return the message that the events of a stream make.

    Raises:
        TurnFailed: The stream ends with an error.
        TurnCrashed: It has no end.
    """
    message: dict[str, Any] = {}
    blocks: list[dict[str, Any]] = []
    pieces: dict[str, list[str]] = {}
    for data in _data_of(stream):
        match data["type"]:
            case "message_start":
                message = data["message"]
            case "content_block_start":
                blocks.append(data["content_block"])
                pieces.clear()
            case "content_block_delta":
                _, (field, piece) = data["delta"].items()
                pieces.setdefault(field, []).append(piece)
            case "content_block_stop":
                _close(blocks[-1], pieces)
            case "message_delta":
                message |= data["delta"] | {"content": blocks, "usage": data["usage"]}
            case "message_stop":
                return message
            case "error":
                raise _failure(data["error"])
    raise TurnCrashed


def _close(block: dict[str, Any], pieces: Mapping[str, list[str]]) -> None:
    for field, texts in pieces.items():
        if field == "partial_json":
            block["input"] = json.loads("".join(texts))
        else:
            block[field] = "".join(texts)


def _data_of(stream: bytes) -> Iterator[Any]:
    for line in stream.decode("ascii").split("\n"):
        if line.startswith(_DATA):
            yield json.loads(line.removeprefix(_DATA))


def _failure(error: Mapping[str, Any]) -> TurnFailed:
    details = {**error["details"]}
    retryable = bool(details.pop("retryable", False))
    return TurnFailed(error["mochi_code"], error["message"], retryable=retryable, **details)
