"""Pairs replies with their requests, in either transport, and makes their results fit.

Importing this module imports the SDK.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from tools_app.mcp.messages import UNKNOWN
from tools_app.mcp.rate_limit import RateLimiter

if TYPE_CHECKING:
    # private: mcp.client._transport, the module of the types that transports yield. Price: nothing
    # at run time.
    from mcp.client._transport import ReadStream, WriteStream

Incoming = SessionMessage | Exception
Streams = tuple[ObjectReceiveStream[Incoming], ObjectSendStream[SessionMessage]]
"""Where messages of a server arrive, and where those to it are sent."""


class Exchange:
    """Pairs the replies of one connection with their requests, and makes their results fit.

    Args:
        fits: Returns, by method, a result as the SDK accepts it.
    """

    def __init__(self, fits: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]) -> None:
        self._fits = fits
        self._methods: dict[str, str] = {}

    def note(self, message: JSONRPCMessage) -> None:
        """Remember a request until it is answered or cancelled."""
        if isinstance(message, JSONRPCRequest):
            self._methods[str(message.id)] = message.method
        elif isinstance(message, JSONRPCNotification) and message.method.endswith("/cancelled"):
            self._methods.pop(str((message.params or {}).get("requestId")), None)

    def fitted(self, message: JSONRPCMessage) -> JSONRPCMessage:
        """Return the message; a reply without an id gets that of the only open request."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return message
        if message.id in (None, UNKNOWN) and len(self._methods) == 1:
            message.id = next(iter(self._methods))
        method = self._methods.pop(str(message.id), "")
        if isinstance(message, JSONRPCResponse) and method in self._fits:
            message.result = self._fits[method](message.result)
        return message


class Replies(ObjectReceiveStream[Incoming]):
    """Receives a server's messages, fitted, and no more of them than the limiter lets through."""

    def __init__(self, stream: "ReadStream[Incoming]", exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange
        self._limiter = RateLimiter()

    async def receive(self) -> Incoming:
        """Return the next message."""
        await self._limiter.wait()
        item = await self._stream.receive()
        if isinstance(item, SessionMessage):
            item.message = self._exchange.fitted(item.message)
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


class Requests(ObjectSendStream[SessionMessage]):
    """Sends messages to a server, and notes the requests among them."""

    def __init__(self, stream: "WriteStream[SessionMessage]", exchange: Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        self._exchange.note(item.message)
        await self._stream.send(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()
