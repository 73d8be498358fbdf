"""What images cost: the memory of an upload, and who waits while a turn has many of them."""

import os
import struct
import sys
import time
import zlib
from pathlib import Path
from statistics import median

from client import Connection
from measures import Load
from subjects import MESSAGE, Ours, Server
from turns import longest_wait

UPLOADED_BYTES = 20 << 20
IMAGES, IMAGE_BYTES = 20, 1 << 20
MODEL = "bench:16x0"


def png(size: int) -> bytes:
    """Return a PNG of so many bytes, which no other one is like."""
    header = struct.pack(">IIBBBBB", 800, 600, 8, 2, 0, 0, 0)
    ends = _chunk(b"IHDR", header), _chunk(b"IEND", b"")
    padding = os.urandom(size - 8 - sum(map(len, ends)) - 12)
    return b"\x89PNG\r\n\x1a\n" + ends[0] + _chunk(b"prVt", padding) + ends[1]


async def upload(subject: Ours, server: Server, load: Load) -> dict[str, float]:
    """Bytes by which the web worker grows while 20 MiB are uploaded, and how fast that is."""
    connection = await subject.connect()
    await _kept(connection, png(UPLOADED_BYTES))  # what is made once, on first use
    grown, rates = [], []
    for _ in range(load.uploads):
        request = _request(connection, png(UPLOADED_BYTES))
        before = _peak_from_now(server)
        began = time.perf_counter()
        await connection.start(request)
        rates.append(UPLOADED_BYTES / (time.perf_counter() - began))
        assert connection.reply.status == 201, connection.reply.body
        grown.append(max(_peak(server) - before, 0))
    connection.leave()
    figures = {"upload_rate": median(rates)}
    return figures | ({"upload_memory": median(grown)} if sys.platform == "linux" else {})


async def others_wait(subject: Ours, load: Load) -> dict[str, float]:
    """Seconds that somebody else waits at most while a turn has 20 images of 1 MiB, or none."""
    speaker, asker = await subject.connect(), await subject.connect()
    images = [await _kept(speaker, png(IMAGE_BYTES)) for _ in range(IMAGES)]
    waits: dict[str, list[float]] = {"images_wait": [], "plain_wait": []}
    for _ in range(load.waits):
        for name, attachments in (("images_wait", images), ("plain_wait", [])):
            body = {"model": MODEL, "message": MESSAGE, "attachments": attachments}
            turn = speaker.request_bytes("POST", "/api/v1/chat/stream", body)
            waits[name].append(await longest_wait(asker, speaker, turn))
    speaker.leave()
    asker.leave()
    return {name: median(times[1:]) for name, times in waits.items()}


async def _kept(connection: Connection, data: bytes) -> str:
    await connection.start(_request(connection, data), keep_body=True)
    reply = connection.reply
    if reply.status != 201:
        raise RuntimeError(f"the upload was refused: {reply.status} {reply.body!r}")
    return reply.body.partition(b'"id":')[2].split(b'"')[1].decode()


def _request(connection: Connection, data: bytes) -> bytes:
    head = (
        f"POST /api/v1/attachments HTTP/1.1\r\nHost: {connection.host}\r\n"
        f"Content-Type: image/png\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _peak_from_now(server: Server) -> int:
    """Forget how much memory the process has had; return what it has."""
    if sys.platform == "linux":
        Path(f"/proc/{server.popen.pid}/clear_refs").write_text("5")
    return server.rss()


def _peak(server: Server) -> int:
    status = Path(f"/proc/{server.popen.pid}/status")
    if not status.exists():
        return server.rss()
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024
