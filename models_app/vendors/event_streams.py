"""Reads the event stream of a vendor as servers really send it. Pure.

Skips byte order marks, comments, keep-alives without data and the names of events, and takes data
that stand on lines without ``data:``, or whole bodies.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Protocol

_FIELD = re.compile(r"(data|event|id|retry)\s*:[ ]?(.*)", re.DOTALL)
DONE = "[DONE]"


class Translator(Protocol):
    """Rewrites the data of one vendor's events, so that its SDK can read them."""

    def read(self, data: str) -> Iterable[str]:
        """Return the data of the events to read in the place of this one."""
        ...

    def end(self) -> Iterable[str]:
        """Return the data of the events to read at the end of the stream."""
        ...


class EventReader:
    """Splits one stream, however it is cut into reads, and translates its events.

    Args:
        translator: Rewrites the data.
    """

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._begun: list[bytes] = []
        self._data: list[str] = []
        self._others: list[str] = []

    def feed(self, received: bytes) -> bytes:
        """Return the events to read after these bytes; may be empty."""
        first, *others = received.split(b"\n")
        self._begun.append(first)
        lines: list[bytes] = []
        for piece in others:
            lines.append(b"".join(self._begun))
            self._begun = [piece]
        return self._events(data for line in lines for data in self._line(line))

    def end(self) -> bytes:
        """Return the events to read at the end of the stream."""
        rest = [*self._line(b"".join(self._begun)), *self._held()]
        if self._others:  # a whole body, or what has come between events
            rest.append("\n".join(self._others))
        return self._events(rest) + _encoded(self._translator.end())

    def _events(self, found: Iterable[str]) -> bytes:
        return b"".join(_encoded(self._translator.read(data)) for data in found)

    def _line(self, raw: bytes) -> Iterator[str]:
        line = raw.decode(errors="replace").removesuffix("\r").lstrip("\ufeff")
        if not line.strip():
            yield from self._held()
        elif field := _FIELD.fullmatch(line):
            if field[1] == "data" and field[2].strip():
                if _is_whole(self._data) and field[2].lstrip()[:1] in ("{", "["):
                    yield from self._held()  # no empty line between events
                self._data.append(field[2])
        elif _is_whole([line]):
            yield from self._held()
            yield line
        elif not line.startswith(":"):
            self._others.append(line)

    def _held(self) -> Iterator[str]:
        if self._data:
            data, self._data = "\n".join(self._data), []
            yield data


def _is_whole(lines: list[str]) -> bool:
    """Return whether data look like a whole JSON object."""
    return bool(lines) and lines[0].lstrip()[:1] == "{" and lines[-1].rstrip()[-1:] == "}"


def _encoded(found: Iterable[str]) -> bytes:
    return b"".join(f"data: {data}\n\n".encode("utf-8", "surrogatepass") for data in found)
