"""Streams a request's body to its view, so that uploads are never held in memory."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import Any, Self

from mochi_project.asgi_types import Message, Receive, Send
from mochi_project.errors import messages
from mochi_project.guard.refusal import Refused
from mochi_project.guard.request_body import ClientLeft, check_encoding

_KEY = "mochi.streamed_body"
LONGEST_SECONDS = 600.0
"""For a whole upload, however it drips."""
_DRAINED_SECONDS = 5.0


class StreamedBody:
    """A request's body, in pieces.

    Args:
        receive: Receives it.
        head: The request's headers about it, by their names.
        max_bytes: The largest body that is taken.
        silence_seconds: How long a client may send nothing.
        variable: The setting that bounds it.

    Raises:
        Refused: Its headers say that it may not come in.
    """

    def __init__(
        self,
        receive: Receive,
        head: Mapping[bytes, bytes],
        *,
        max_bytes: int,
        silence_seconds: float,
        variable: str = "MOCHI_MAX_ATTACHMENT_BYTES",
    ) -> None:
        self._variable = variable
        check_encoding(head)
        length = head.get(b"content-length", b"")
        if length and not length.isdigit():
            raise Refused("BAD_REQUEST", "The header content-length is not a number.")
        self._announced = int(length) if length else None
        self._max_bytes = max_bytes
        if self._announced is not None and self._announced > max_bytes:
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
        """Return the request's scope, in which ``of`` finds this body, and Django an empty one.

        Without its length: Django would refuse what is larger than it may hold in memory.
        """
        headers = [each for each in scope["headers"] if each[0] != b"content-length"]
        return {**scope, "headers": headers, _KEY: self}

    async def receive(self) -> Message:
        """Return an empty body, then what comes behind the real one: for who reads no uploads."""
        if not self._is_told:
            self._is_told = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._ended.wait()
        return await self._receive_from()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, once.

        Raises:
            Refused: It is too large, too slow, or shorter than announced.
            ClientLeft: The client left before it was complete.
        """
        size, more = 0, True
        last = asyncio.get_running_loop().time() + LONGEST_SECONDS
        while more:
            if asyncio.get_running_loop().time() > last:
                raise Refused("REQUEST_TIMEOUT", messages.body_too_slow(LONGEST_SECONDS))
            message = await self._next()
            piece, more = message.get("body", b""), message.get("more_body", False)
            size += len(piece)
            if not more:  # noted before the piece is used: whoever refuses it waits for no more
                self._ended.set()
            if size > self._max_bytes:
                raise self._too_large()
            if piece:
                yield piece
        if self._announced is not None and size != self._announced:
            raise Refused(
                "BAD_REQUEST",
                f"The request announced a body of {self._announced} bytes, and {size} arrived.",
            )

    async def drain(self) -> None:
        """Throw away what still comes, for a while: clients read no answer while they send."""
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
        """Wrap ASGI ``send``; an answer before the body's end says that it is the last one."""

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

    def _too_large(self) -> Refused:
        return Refused(
            "PAYLOAD_TOO_LARGE",
            messages.body_too_large(self._max_bytes, self._variable),
            max_bytes=self._max_bytes,
        )
