"""Reads the event stream of a vendor as servers really send it. Pure.

Skips byte order marks, comments, keep-alives without data and the names of events, and takes data
that stand on lines without ``data:``, or whole bodies.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from models_app.error_words import MAX_WORDS, error_message, readable
from models_app.odd_values import compact_json
from sessions_app.finite_numbers import AS_TEXT

_FIELD = re.compile(r"(data|event|id|retry)\s*:[ ]?(.*)", re.DOTALL)
DONE = "[DONE]"
_OTHER_FIELDS = frozenset(["id", "object", "type"])
_SAYS_ERROR = re.compile(r"error|fail|exception", re.IGNORECASE)
_ABOUT_ERRORS = ("message", "detail", "msg", "error_message")


class Translator:
    """Rewrites the data of one answer's events, so that a vendor's SDK can read them.

    Attributes:
        answer_fields: Fields that an answer's objects have, and errors have not.
        has_ended: Whether the answer came to its end: words after it count for nothing.
    """

    answer_fields: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self.has_ended = False

    def is_ordinary(self, written: str) -> bool:
        """Return whether an event, without the empty line after it, can be read as it is."""
        return False

    def read(self, data: str) -> Iterable[str]:
        """Return the events to read in the place of one with these data."""
        if data.strip() == DONE:
            yield from self.done()
            return
        try:
            value = json.loads(data, **AS_TEXT)
        except (ValueError, RecursionError):
            yield from (self.broken(data),) if data.lstrip()[:1] == "{" else self._fail(data)
            return
        if not isinstance(value, dict):
            yield from self._fail(data)
        elif (error := self._error_in(value, data)) is not None:
            yield from self._fail(error)
        else:
            try:
                yield from self.translate(value)
            except RecursionError:
                yield from self._fail(data)

    def translate(self, value: Mapping[str, Any]) -> Iterable[str]:
        """Return the events in the place of an object of an answer."""
        raise NotImplementedError

    def error(self, error: Mapping[str, Any]) -> str:
        """Return the event that the SDK takes for an error; it has a ``message``."""
        return event(compact_json({"error": error}))

    def broken(self, data: str) -> str:
        """Return the event of data that break off, which the SDK refuses."""
        return event(data)

    def done(self) -> Iterable[str]:
        """Return the events in the place of ``[DONE]``."""
        return ()

    def end(self) -> Iterable[str]:
        """Return the events to read at the end of the stream."""
        return ()

    def _fail(self, error: str | Mapping[str, Any]) -> Iterable[str]:
        if self.has_ended:
            return
        self.has_ended = True
        if isinstance(error, str):
            error = {"message": readable(error.strip())[:MAX_WORDS]}
        yield self.error(error)

    def _error_in(self, value: Mapping[str, Any], data: str) -> str | Mapping[str, Any] | None:
        """Return the error that an object holds, in whatever form."""
        error = value.get("error")
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            return error
        fields = self.answer_fields
        is_answer = any(isinstance(value.get(name), list | dict) for name in fields)
        if error or (not is_answer and any(value.get(name) for name in _ABOUT_ERRORS)):
            words = error_message(value) or error_message({"message": value.get("msg")})
            code = value.get("code")
            message = (words or data)[:MAX_WORDS]
            return {"message": message, **({"code": code} if code else {})}
        is_unknown = not value.keys() & (fields | _OTHER_FIELDS)
        return data if is_unknown and _SAYS_ERROR.search(data) else None


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
        if self._are_ordinary(received):
            return received
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

    def _are_ordinary(self, received: bytes) -> bool:
        """Return whether bytes are whole events that need no translation, which takes longer."""
        if self._data or any(self._begun):
            return False
        text = received.decode(errors="replace")
        events = text.removesuffix("\n\n").split("\n\n")
        return (
            text.endswith("\n\n")
            and "\ufffd" not in text
            and all(map(self._translator.is_ordinary, events))
        )

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
                self._data.append(field[2].strip())  # now: else once for each line that follows
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


def event(data: str, name: str | None = None) -> str:
    """Return an event as servers send it."""
    return f"data: {data}\n\n" if name is None else f"event: {name}\ndata: {data}\n\n"


def _encoded(found: Iterable[str]) -> bytes:
    return "".join(found).encode("utf-8", "surrogatepass")
