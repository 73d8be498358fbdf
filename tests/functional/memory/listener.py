"""Listens to streams and tells the longest silence in any of them, each time it is asked.

A process of its own, so that what the test does meanwhile delays nothing here::

    python listener.py HOST PORT BODY PATH...

Prints ``ready`` when every stream has said something. Then each line on stdin is answered with the
longest silence since the last one, in milliseconds.
"""

import asyncio
import sys
import time
from functools import partial

MARK = b"event: content_delta"


class Listener(asyncio.Protocol):
    """One stream."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.heard = asyncio.Event()
        self.last = 0.0
        self.longest = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Note how long it was silent."""
        if MARK in data:
            now = time.perf_counter()
            if self.last:
                self.longest = max(self.longest, now - self.last)
            self.last = now
            self.heard.set()

    def take_longest(self) -> float:
        """Return the longest silence since the last call, one that goes on too; in seconds."""
        longest, self.longest = max(self.longest, time.perf_counter() - self.last), 0.0
        return longest


async def main(host: str, port: str, body: str, *paths: str) -> None:
    """Listen until stdin ends."""
    loop = asyncio.get_running_loop()
    listeners = []
    for path in paths:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        made = partial(Listener, (head + body).encode())
        _, listener = await loop.create_connection(made, host, int(port))
        listeners.append(listener)
    for listener in listeners:
        await listener.heard.wait()
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(round(max(each.take_longest() for each in listeners) * 1000), flush=True)


asyncio.run(main(*sys.argv[1:]))
