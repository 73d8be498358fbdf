"""Adds headers to every response."""

from collections.abc import Awaitable, Iterable

from mochi_project.asgi_types import Message, Send

Headers = tuple[tuple[bytes, bytes], ...]


class AddingHeaders:
    """Wraps ASGI ``send``; adds headers that the response does not set.

    Attributes:
        after_start: The function to call instead once the response has started.
        started: Whether the response has started.
    """

    __slots__ = ("_extra", "after_start", "started")

    def __init__(self, extra: Headers, send: Send) -> None:
        self._extra = extra
        self.after_start = send
        self.started = False

    # Not a coroutine: a stream may send every chunk through here.
    def __call__(self, message: Message) -> Awaitable[None]:
        """Send a message."""
        if message["type"] == "http.response.start":
            self.started = True
            headers = message.get("headers", ())
            message = {**message, "headers": _merged(headers, self._extra)}
        return self.after_start(message)


def _merged(headers: Iterable[tuple[bytes, bytes]], extra: Headers) -> list[tuple[bytes, bytes]]:
    merged = list(headers)
    present = {name.lower() for name, _ in merged} - {b"vary"}
    return merged + [header for header in extra if header[0] not in present]
