"""Reads a request's body within a size limit and a deadline, and checks that it is complete."""

import asyncio
from collections.abc import MutableMapping
from contextlib import aclosing
from typing import Any

from mochi_project.asgi_types import Message, Receive
from mochi_project.errors import messages
from mochi_project.guard.refusal import Refused
from mochi_project.guard.streamed_body import StreamedBody
from mochi_project.memory.large_bodies import LargeBodies, holds_large_body

_MEANS_ITS_BODY = frozenset({"POST", "PUT", "PATCH"})


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
        is_json = _is_json(head.get(b"content-type", b""))
        body = StreamedBody(
            receive,
            head,
            max_bytes=self._max_bytes,
            silence_seconds=self._deadline,
            too_large=self._too_large,
        )
        if body.announced and not is_json:
            raise _not_json()
        try:
            async with asyncio.timeout(self._deadline):
                data = await self._collect(scope, body, is_json=is_json)
        except TimeoutError as error:
            raise Refused("REQUEST_TIMEOUT", messages.body_too_slow(self._deadline)) from error
        # A missing body means {}, which regenerates an answer: a lost one would replace an answer.
        if not data and b"transfer-encoding" in head and scope["method"] in _MEANS_ITS_BODY:
            raise Refused(
                "BAD_REQUEST",
                "The request announced a body and sent an empty one. Send {} to say nothing.",
            )
        return _replaying(data, receive)

    async def _collect(
        self, scope: MutableMapping[str, Any], body: StreamedBody, *, is_json: bool
    ) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async with aclosing(body.pieces()) as arriving:
            async for piece in arriving:
                if not is_json:
                    raise _not_json()
                pieces.append(piece)
                size += len(piece)
                if size > self._large_bytes and not holds_large_body(scope):
                    await self._enter(scope)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _enter(self, scope: MutableMapping[str, Any]) -> None:
        if not await self._large.enter(scope):
            raise Refused("TOO_MANY_LARGE_BODIES", messages.TOO_MANY_LARGE_BODIES, retryable=True)

    def _too_large(self) -> Refused:
        return Refused(
            "PAYLOAD_TOO_LARGE",
            messages.body_too_large(self._max_bytes, self._variable),
            max_bytes=self._max_bytes,
        )


def _is_json(content_type: bytes) -> bool:
    media_type, _, parameters = content_type.partition(b";")
    if media_type.strip().lower() != b"application/json":
        return False
    charset = parameters.strip().lower()
    return not charset.startswith(b"charset=") or charset[8:].strip(b'" ') in {b"utf-8", b"utf8"}


def _not_json() -> Refused:
    return Refused("UNSUPPORTED_MEDIA_TYPE", messages.JSON_REQUIRED)


def _replaying(body: bytes, receive: Receive) -> Receive:
    left: list[bytes] = [body]  # a list, to free the body after use: a long stream may follow

    async def replay() -> Message:
        if not left:
            return await receive()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    return replay
