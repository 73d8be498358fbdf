"""Extends ASGI: reports a client that leaves, and writes pieces of a stream at once.

Over ASGI alone, noticing that a client leaves needs a task that waits for it as long as the stream
lasts, and each piece of a stream wakes a task. Another server (``uvicorn
mochi_project.asgi:application``) costs just that.
"""

# private: RequestResponseCycle.{scope,send,flow,transport,disconnected,response_complete,
# chunked_encoding}. Price: this module. Why: 13 us a request and 30 us a token
# (docs/decisions/0019, 0040, 0095); test_exchange.py compares its bytes with the newest uvicorn's.

from collections.abc import Callable, Mapping
from typing import Any, Self

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_KEY = "mochi.exchange"


class Exchange:
    """A request and its response on a connection of ``BoundedHttpToolsProtocol``.

    Attributes:
        server_stops: Whether the server had begun to stop when the request came.
    """

    __slots__ = ("_cycle", "_on_disconnect", "server_stops")

    def __init__(self, cycle: RequestResponseCycle, *, server_stops: bool = False) -> None:
        self._cycle = cycle
        self.server_stops = server_stops
        self._on_disconnect: Callable[[], None] | None = None
        scope: dict[str, Any] = cycle.scope  # type: ignore[assignment]
        scope["extensions"] = {_KEY: self}

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Self | None:
        """Return the exchange of an ASGI scope, if its server is ours."""
        extensions = scope.get("extensions")
        return extensions.get(_KEY) if extensions else None

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Call back once when the client leaves, or now if it has left; None: no longer."""
        self._on_disconnect = callback
        if callback is None:
            return
        self._cycle.flow.resume_reading()  # a connection that is not read is not seen to end
        if self._cycle.disconnected:
            self.disconnect()

    def sink(self, send: Callable[..., Any]) -> Callable[[bytes], bool] | None:
        """Return what writes pieces of the started response at once, without a task that waits.

        Args:
            send: What the response is sent with. If it is neither the server's own nor the
                guard's, which changes only the start, None is returned: a middleware that wraps
                it gets to see every piece.
        """
        if getattr(send, "after_start", send) != self._cycle.send:
            return None
        return (lambda _: False) if self._cycle.scope["method"] == "HEAD" else self._write

    def _write(self, body: bytes) -> bool:
        """Write a piece of a chunked body as ``RequestResponseCycle.send`` does.

        Returns:
            False if ``send`` has to do it: the client does not keep up, or it is no such piece.
        """
        cycle = self._cycle
        if cycle.flow.write_paused or cycle.disconnected or cycle.response_complete:
            return False
        if not cycle.chunked_encoding:
            return False
        cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        return True

    def note_lost(self) -> None:
        """Note that the connection is lost: nothing is sent any more."""
        # uvicorn marks only the newest of the requests that are pipelined on a connection.
        self._cycle.disconnected = True

    def end(self) -> None:
        """Leave the scope, which the request holds: nobody looks for an exchange there any more."""
        self._cycle.scope["extensions"] = {}

    def disconnect(self) -> None:
        """Call back because the client has left, unless the request has ended meanwhile."""
        callback, self._on_disconnect = self._on_disconnect, None
        if callback is not None:
            callback()
