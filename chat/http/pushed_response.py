"""Declares responses whose chunks may be written to the connection without waking a task."""

from collections.abc import Callable

from django.http import StreamingHttpResponse

Sink = Callable[[bytes], bool]
"""Writes a chunk at once; returns whether it did."""


class PushedResponse(StreamingHttpResponse):
    """A stream that can write its chunks where they are made (docs/decisions/0019).

    Attributes:
        sink: Set by the handler before it sends the response, on a server that offers it.
    """

    sink: Sink | None = None

    def revoke(self) -> None:
        """End the stream, since the key that opened it has ended."""
