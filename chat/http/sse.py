"""Encodes numbered events as server-sent events (WHATWG HTML section 9.2), and reads their ids."""

import re
from collections.abc import Sequence

from chat.stream.numbered_event import NumberedEvent

RETRY = b"retry: 2000\n"
"""A field of the first event's block: in a block of its own some clients take it for an event."""

HEARTBEAT = b": keep-alive\n\n"

EVENT_ID_PATTERN = "^([0-9A-Za-z]+:[0-9]{1,12})?$"
"""The ids that ``read_event_id`` reads, and the empty one that a browser may send."""
_EVENT_ID = re.compile(EVENT_ID_PATTERN, re.ASCII)


def encode_frames(turn_id: str, events: Sequence[NumberedEvent]) -> bytes:
    """Return the events as they go to the client: ``id``, ``event`` and one ``data`` line each.

    The hot path: an event is encoded once for all its listeners.
    """
    for event in events:
        if not event.frame:
            event.frame = (
                f"id: {turn_id}:{event.number}\nevent: {event.name}\ndata: {event.data}\n\n"
            )
    if len(events) == 1:
        return events[0].frame.encode("ascii")
    return "".join([event.frame for event in events]).encode("ascii")


def read_event_id(value: str) -> tuple[str, int] | None:
    """Split an event id into turn and number; None when it is malformed."""
    if not value or not _EVENT_ID.fullmatch(value):
        return None
    turn_id, _, digits = value.partition(":")
    return turn_id, int(digits)
