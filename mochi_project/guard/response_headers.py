"""Headers that the guard adds to every response."""

from collections.abc import Awaitable, Iterable
from functools import lru_cache

from mochi_project.asgi_types import Message, Send

Headers = tuple[tuple[bytes, bytes], ...]


class AddingHeaders:
    """A ``send`` that adds headers to the response, but for those it has already.

    Attributes:
        after_start: What may be called instead once the response was started.
    """

    __slots__ = ("_extra", "after_start")

    def __init__(self, extra: Headers, send: Send) -> None:
        self._extra = extra
        self.after_start = send

    # No coroutine of its own: a stream may send every chunk through here.
    def __call__(self, message: Message) -> Awaitable[None]:
        """Send a message."""
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            # A stream's are a tuple, always the same, and stay one.
            merge = _merged_before if isinstance(headers, tuple) else _merged
            message = {**message, "headers": merge(headers, self._extra)}
        return self.after_start(message)


def _merged(headers: Iterable[tuple[bytes, bytes]], extra: Headers) -> list[tuple[bytes, bytes]]:
    merged = list(headers)
    present = {name.lower() for name, _ in merged} - {b"vary"}
    merged.extend(header for header in extra if header[0] not in present)
    return merged


@lru_cache(maxsize=64)
def _merged_before(headers: Headers, extra: Headers) -> Headers:
    return tuple(_merged(headers, extra))
