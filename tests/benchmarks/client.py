"""A load client that reads streams nearly for free: raw HTTP/1.1 over ``asyncio.Protocol``.

It counts tokens by looking for a marker in the bytes and parses nothing else.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

END_OF_CHUNKS = b"\r\n0\r\n\r\n"


@dataclass(slots=True)
class Reply:
    """What came back. Times are ``time.perf_counter`` seconds.

    Attributes:
        status: The HTTP status.
        sent_at: When the request was written.
        first_at: When the first token arrived, or 0.
        tokens: How often the marker was seen.
        body: The bytes after the head, chunk framing included, where they were asked for.
        arrivals: When each read with a token arrived, where asked for.
    """

    status: int = 0
    sent_at: float = 0.0
    first_at: float = 0.0
    tokens: int = 0
    body: bytes = b""
    arrivals: list[float] = field(default_factory=list)

    @property
    def to_first_token(self) -> float:
        """Seconds from the request to the first token."""
        return self.first_at - self.sent_at


class Connection(asyncio.Protocol):
    """A keep-alive connection that sends one request at a time."""

    transport: asyncio.Transport

    def __init__(self, host: str, marker: bytes) -> None:
        self.host = host
        self.marker = marker
        self.reply = Reply()
        self.head: bytes | None = b""
        self.tail = b""
        self.body_left = 0
        self.has_length = False
        self.keep_body = False
        self.keep_arrivals = False
        self.first_token: asyncio.Future[None] | None = None
        self.finished: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, url: str, marker: bytes) -> "Connection":
        """Connect to the server at ``url``; ``marker`` is in the stream once for every token."""
        parts = urlsplit(url)
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: cls(parts.netloc, marker), parts.hostname, parts.port
        )
        return connection

    def request_bytes(self, method: str, path: str, body: object = None) -> bytes:
        """Encode a request, so that this is not part of what is measured."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        return head.encode() + b"\r\n" + data

    def start(
        self, request: bytes, *, keep_body: bool = False, keep_arrivals: bool = False
    ) -> asyncio.Future[None]:
        """Send a request; the future is done with the reply's end. ``first_token`` is set anew."""
        loop = asyncio.get_running_loop()
        self.reply = Reply()
        self.head, self.tail, self.has_length = b"", b"", False
        self.keep_body, self.keep_arrivals = keep_body, keep_arrivals
        self.first_token, self.finished = loop.create_future(), loop.create_future()
        self.reply.sent_at = time.perf_counter()
        self.transport.write(request)
        return self.finished

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send a request and return the JSON of its answer."""
        await self.start(self.request_bytes(method, path, body), keep_body=True)
        body = self.reply.body if self.has_length else unchunk(self.reply.body)
        if self.reply.status not in {200, 201}:
            raise RuntimeError(f"{method} {path}: {self.reply.status} {body!r}")
        return json.loads(body)

    async def stream(self, request: bytes, *, keep_body: bool = False) -> Reply:
        """Send a request and read its stream to the end."""
        await self.start(request, keep_body=keep_body)
        if self.reply.status != 200:
            raise RuntimeError(f"the stream was refused: {self.reply.status} {self.reply.body!r}")
        return self.reply

    def leave(self) -> None:
        """Close the connection at once, whatever is under way."""
        self.finished = self.first_token = None
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is under way."""
        for future in (self.first_token, self.finished):
            if future is not None and not future.done():
                future.set_exception(exc or ConnectionResetError("the server closed the stream"))
                future.exception()

    def data_received(self, data: bytes) -> None:
        """Count tokens and look for the end."""
        if self.finished is None:
            return
        reply = self.reply
        if self.head is not None:
            data = self._read_head(data)
            if self.head is not None:
                return
        if self.keep_body:
            reply.body += data
        seen = self.tail + data
        if tokens := seen.count(self.marker):
            self._count(tokens)
        # One byte short of the marker (which is longer than the end), so that none counts twice.
        self.tail = seen[1 - len(self.marker) :]
        self.body_left -= len(data)
        if self.body_left == 0 if self.has_length else seen.endswith(END_OF_CHUNKS):
            self.finished.set_result(None)
            if self.first_token is not None and not self.first_token.done():
                refusal = RuntimeError(f"no token came: {reply.status} {reply.body!r}")
                self.first_token.set_exception(refusal)
                self.first_token.exception()  # not everybody waits for it

    def _read_head(self, data: bytes) -> bytes:
        self.head = (self.head or b"") + data
        head, separator, body = self.head.partition(b"\r\n\r\n")
        if not separator:
            return b""
        self.head = None
        self.reply.status = int(head[9:12])
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                self.body_left = int(line[15:])
                self.has_length = self.keep_body = True
        return body

    def _count(self, tokens: int) -> None:
        reply = self.reply
        if not reply.tokens:
            reply.first_at = time.perf_counter()
            if self.first_token is not None and not self.first_token.done():
                self.first_token.set_result(None)
        if self.keep_arrivals:
            reply.arrivals.append(time.perf_counter())
        reply.tokens += tokens


def unchunk(body: bytes) -> bytes:
    """Take HTTP's chunk framing off."""
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        parts.append(rest[:length])
        body = rest[length + 2 :]
    return b"".join(parts)
