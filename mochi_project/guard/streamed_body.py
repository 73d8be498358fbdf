"""Streams a request's body to its view, so that uploads are never held in memory."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Self

from mochi_project.asgi_types import Message, Receive, Send
from mochi_project.errors import messages
from mochi_project.guard.refusal import Refused

_KEY = "mochi.streamed_body"
LONGEST_SECONDS = 600.0
"""The time limit of a whole upload."""
_DRAINED_SECONDS = 5.0


class ClientLeft(Exception):
    """Raised when the client disconnected before its request was complete."""


class StreamedBody:
    """A request's body, received in pieces.

    Args:
        receive: Receives the body.
        head: The headers about the body, by name.
        max_bytes: The maximum size.
        silence_seconds: The time limit for a client that sends nothing.
        too_large: Returns the error for a larger body. It names the limit of a file, which can be
            smaller than ``max_bytes``: a form has more around its file.

    Attributes:
        announced: Its size, if the request says it.

    Raises:
        Refused: The body is inadmissible by its headers.
    """

    def __init__(
        self,
        receive: Receive,
        head: Mapping[bytes, bytes],
        *,
        max_bytes: int,
        silence_seconds: float,
        too_large: Callable[[], Refused],
    ) -> None:
        self._too_large = too_large
        if head.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refused(
                "UNSUPPORTED_MEDIA_TYPE", "Compressed bodies are not accepted: send plain JSON."
            )
        length = head.get(b"content-length", b"")
        if length and not length.isdigit():
            raise Refused("BAD_REQUEST", "The header content-length is not a number.")
        self.announced = int(length) if length else None
        self._max_bytes = max_bytes
        if self.announced is not None and self.announced > max_bytes:
            raise self._too_large()
        self._receive_from = receive
        self._silence_seconds = silence_seconds
        self._is_told = False
        self._ended = asyncio.Event()

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Self | None:
        """Return the body of a request that the guard did not read; None if it did."""
        return scope.get(_KEY)

    def noted_in(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """Return a scope in which ``of`` finds this body, while Django sees an empty one.

        The length is removed, because Django would refuse a body above its memory limit.
        """
        headers = [each for each in scope["headers"] if each[0] != b"content-length"]
        return {**scope, "headers": headers, _KEY: self}

    async def receive(self) -> Message:
        """Return an empty body, then messages after the real one; for Django."""
        if not self._is_told:
            self._is_told = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._ended.wait()
        return await self._receive_from()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, once.

        Raises:
            Refused: The body is too large, too slow, or shorter than announced.
            ClientLeft: The client disconnected before it was complete.
        """
        size, more = 0, True
        last = asyncio.get_running_loop().time() + LONGEST_SECONDS
        while more:
            if asyncio.get_running_loop().time() > last:
                raise Refused("REQUEST_TIMEOUT", messages.body_too_slow(LONGEST_SECONDS))
            message = await self._next()
            piece, more = message.get("body", b""), message.get("more_body", False)
            size += len(piece)
            if (
                not more
            ):  # set before yielding: if the last piece is refused, nothing is left to drain
                self._ended.set()
            if size > self._max_bytes:
                raise self._too_large()
            if piece:
                yield piece
        if self.announced is not None and size != self.announced:
            raise Refused(
                "BAD_REQUEST",
                f"The request announced a body of {self.announced} bytes, and {size} arrived.",
            )

    async def drain(self) -> None:
        """Discard the rest for a while, since clients don't read a response while sending."""
        if self._ended.is_set():
            return
        try:
            async with asyncio.timeout(_DRAINED_SECONDS):
                while (await self._next()).get("more_body", False):
                    pass
        except (TimeoutError, Refused, ClientLeft):
            return
        self._ended.set()

    def closing(self, send: Send) -> Send:
        """Wrap ASGI ``send``; add ``Connection: close`` to a response before the body's end."""

        def sending(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start" and not self._ended.is_set():
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            return send(message)

        return sending

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self._silence_seconds):
                message = await self._receive_from()
        except TimeoutError as error:
            raise Refused(
                "REQUEST_TIMEOUT", messages.body_too_slow(self._silence_seconds)
            ) from error
        if message["type"] != "http.request":
            raise ClientLeft
        return message
