"""Wraps the streams of either transport: pairs replies with requests, and makes results fit.

Importing this module imports the SDK.
"""

from collections import Counter
from typing import TYPE_CHECKING

from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from tools_app.mcp.descriptions import FITS
from tools_app.mcp.elicitation import NOT_OFFERED, OpenCalls
from tools_app.mcp.messages import UNKNOWN
from tools_app.mcp.rate_limit import RateLimiter

if TYPE_CHECKING:
    # private: mcp.client._transport, the module of the types that transports yield. Price: nothing
    # at run time.
    from mcp.client._transport import ReadStream, WriteStream

Incoming = SessionMessage | Exception
Streams = tuple[ObjectReceiveStream[Incoming], ObjectSendStream[SessionMessage]]
"""The streams of messages from a server and to it."""


class Requests(ObjectSendStream[SessionMessage]):
    """Sends messages to a server.

    Args:
        stream: Where they are written.
        calls: The calls of tools among them.

    Attributes:
        methods: Those of the requests that were neither answered nor cancelled, by id.
    """

    def __init__(self, stream: "WriteStream[SessionMessage]", calls: OpenCalls) -> None:
        self._stream = stream
        self._calls = calls
        self.methods: dict[str, str] = {}

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self.methods[str(message.id)] = message.method
            self._calls.sent(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method.endswith("/cancelled"):
            self.methods.pop(str((message.params or {}).get("requestId")), None)
        await self._stream.send(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


class Replies(ObjectReceiveStream[Incoming]):
    """Receives a server's messages, with results that fit, and not too many of them.

    Args:
        stream: The messages as they arrive.
        requests: What they reply to.
        refused: Counts what the server asks for and is not offered.
    """

    def __init__(
        self, stream: "ReadStream[Incoming]", requests: Requests, refused: Counter[str]
    ) -> None:
        self._stream = stream
        self._refused = refused
        self._methods = requests.methods
        self._limiter = RateLimiter()

    async def receive(self) -> Incoming:
        """Return the next message; a reply without an id gets that of the only open request."""
        await self._limiter.wait()
        item = await self._stream.receive()
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCRequest) and message.method in NOT_OFFERED:
            self._refused[NOT_OFFERED[message.method]] += 1  # the SDK answers with an error
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            if message.id in (None, UNKNOWN) and len(self._methods) == 1:
                message.id = next(iter(self._methods))
            method = self._methods.pop(str(message.id), "")
            if isinstance(message, JSONRPCResponse) and method in FITS:
                message.result = FITS[method](message.result)
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()
