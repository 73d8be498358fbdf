"""Reads a request's body within a size limit and a deadline, and checks that it is complete."""

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

from mochi_project.asgi_types import Message, Receive, Scope
from mochi_project.errors import messages
from mochi_project.guard.refusal import Refused
from mochi_project.memory.large_bodies import LargeBodies, holds_large_body

_MEANS_ITS_BODY = frozenset({"POST", "PUT", "PATCH"})


class ClientLeft(Exception):
    """Raised when the client disconnected before its request was complete."""


class BodyReader:
    """Reads the bodies of requests.

    Args:
        max_bytes: The maximum size of a body.
        deadline: The time limit in seconds for a whole body.
        large_bytes: The size from which on a body needs a place in ``LargeBodies``; None for no
            such limit.
        variable: The setting of ``max_bytes``, for errors.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        deadline: float,
        large_bytes: int | None = None,
        variable: str = "MOCHI_MAX_BODY_BYTES",
    ) -> None:
        self._max_bytes = max_bytes
        self._deadline = deadline
        self._large_bytes = max_bytes if large_bytes is None else large_bytes
        self._variable = variable
        self._large = LargeBodies()

    async def read(
        self, scope: MutableMapping[str, Any], receive: Receive, head: dict[bytes, bytes]
    ) -> Receive:
        """Read the whole body and return a ``receive`` that replays it.

        Args:
            scope: The request, in which a large body is marked.
            receive: Receives the body.
            head: The headers about the body, by name.

        Raises:
            Refused: The body is too large, too slow, not declared as JSON, or incomplete.
            ClientLeft: The client disconnected before the body was complete.
        """
        check_encoding(head)
        is_json = _is_json(head.get(b"content-type", b""))
        length = head.get(b"content-length", b"")
        if length:
            self._check_length(length, is_json=is_json)
        try:
            async with asyncio.timeout(self._deadline):
                body = await self._receive(scope, receive, is_json=is_json)
        except TimeoutError as error:
            raise Refused("REQUEST_TIMEOUT", messages.body_too_slow(self._deadline)) from error
        _check_arrival(body, scope, head)
        return _replaying(body, receive)

    def _check_length(self, length: bytes, *, is_json: bool) -> None:
        if not length.isdigit():
            raise Refused("BAD_REQUEST", "The header content-length is not a number.")
        if int(length) > self._max_bytes:
            raise self._too_large()
        if not is_json:
            raise _not_json()

    async def _receive(
        self, scope: MutableMapping[str, Any], receive: Receive, *, is_json: bool
    ) -> bytes:
        chunks: list[bytes] = []
        left = self._max_bytes
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientLeft
            chunk = message.get("body", b"")
            left -= len(chunk)
            if left < 0:
                raise self._too_large()
            if chunk:
                if not is_json:
                    raise _not_json()
                chunks.append(chunk)
            if self._max_bytes - left > self._large_bytes and not holds_large_body(scope):
                await self._enter(scope)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _enter(self, scope: MutableMapping[str, Any]) -> None:
        if not await self._large.enter(scope):
            raise Refused("TOO_MANY_LARGE_BODIES", messages.TOO_MANY_LARGE_BODIES, retryable=True)

    def _too_large(self) -> Refused:
        return Refused(
            "PAYLOAD_TOO_LARGE",
            messages.body_too_large(self._max_bytes, self._variable),
            max_bytes=self._max_bytes,
        )


def _check_arrival(body: bytes, scope: Scope, head: dict[bytes, bytes]) -> None:
    """Refuse a body that is shorter than announced, as a server or proxy may lose it.

    A missing body means ``{}``, which regenerates an answer: a lost one would replace an answer.
    """
    if b"transfer-encoding" in head:
        if not body and scope["method"] in _MEANS_ITS_BODY:
            raise Refused(
                "BAD_REQUEST",
                "The request announced a body and sent an empty one. Send {} to say nothing.",
            )
        return
    announced = int(head.get(b"content-length") or len(body))
    if len(body) != announced:
        raise Refused(
            "BAD_REQUEST",
            f"The request announced a body of {announced} bytes, and {len(body)} arrived.",
        )


def _is_json(content_type: bytes) -> bool:
    media_type, _, parameters = content_type.partition(b";")
    if media_type.strip().lower() != b"application/json":
        return False
    charset = parameters.strip().lower()
    return not charset.startswith(b"charset=") or charset[8:].strip(b'" ') in {b"utf-8", b"utf8"}


def check_encoding(head: Mapping[bytes, bytes]) -> None:
    """Refuse a compressed body; raises ``Refused``."""
    if head.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refused(
            "UNSUPPORTED_MEDIA_TYPE", "Compressed bodies are not accepted: send plain JSON."
        )


def _not_json() -> Refused:
    return Refused("UNSUPPORTED_MEDIA_TYPE", messages.JSON_REQUIRED)


def _replaying(body: bytes, receive: Receive) -> Receive:
    left: list[bytes] = [body]  # a list, to free the body after use: a long stream may follow

    async def replay() -> Message:
        if not left:
            return await receive()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    return replay
