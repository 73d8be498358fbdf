"""Encodes events of AG-UI as server-sent events. Pure."""

from typing import Any

from chat.stream.encoding import ascii_json


def frame(kind: str, **fields: Any) -> str:
    """Return an encoded event without fields that are None, because clients reject null."""
    given = {name: value for name, value in fields.items() if value is not None}
    return f"data: {ascii_json({'type': kind, **given})}\n\n"


def delta_head(kind: str, message_id: str, subagent_run_id: str | None = None) -> str:
    """Return the beginning of a text event; its text, a JSON string, and ``TAIL`` follow."""
    head = frame(kind, messageId=message_id, subagentRunId=subagent_run_id)
    return f'{head[: -len(TAIL)]},"delta":'


TAIL = "}\n\n"


class Frames:
    """Collects encoded events until ``take``."""

    def __init__(self) -> None:
        self._chunks: list[str] = []
        self.add_encoded = self._chunks.append

    def add(self, kind: str, **fields: Any) -> None:
        """Add an event without fields that are None."""
        self.add_encoded(frame(kind, **fields))

    def take(self) -> bytes:
        """Return the events since the last call."""
        taken = "".join(self._chunks).encode("ascii")
        self._chunks.clear()
        return taken
