import asyncio
import json
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mochi_project.guard.guard import SECURITY_HEADERS
from mochi_project.uvicorn_protocol.cycle import SMALL_BYTES, LeanCycle

STREAM = ((b"Content-Type", b"text/event-stream; charset=utf-8"), *SECURITY_HEADERS)


class Connection:
    """The transport and the flow control of a connection that notes what is written."""

    write_paused = False

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.written += b"<closed>"

    def is_closing(self) -> bool:
        return False


async def sent_by(
    kind: type[RequestResponseCycle], *messages: Any, then: Any = None, **changes: Any
) -> bytes:
    connection = Connection()
    options = {
        "scope": {"method": changes.pop("method", "POST")},
        "transport": connection,
        "flow": connection,
        "logger": logging.getLogger(__name__),
        "access_logger": logging.getLogger(__name__),
        "access_log": False,
        "default_headers": [(b"date", b"today"), (b"server", b"x")],
        "message_event": asyncio.Event(),
        "expect_100_continue": False,
        "keep_alive": True,
        "on_response": lambda: None,
    }
    cycle = kind(**{**options, **changes})
    for message in messages:
        await cycle.send(message)
    if then is not None:
        await then(cycle)
    await asyncio.sleep(0)
    return connection.written


def start(headers: Any, status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": headers}


CHUNK = {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}
END = {"type": "http.response.body"}


@pytest.mark.parametrize(
    ("headers", "status", "changes"),
    [
        (STREAM, 200, {}),
        (STREAM, 200, {"method": "HEAD"}),
        (STREAM, 200, {"keep_alive": False}),
        (STREAM, 404, {}),
        (STREAM, 204, {}),
        ((*STREAM, (b"Connection", b"close")), 200, {}),
        ((*STREAM, (b"transfer-encoding", b"chunked")), 200, {}),
        ((), 200, {}),
    ],
)
async def test_a_head_that_is_known_is_the_one_that_uvicorn_writes(
    headers: Any, status: int, changes: dict[str, Any]
) -> None:
    messages = (start(headers, status), *((CHUNK,) if status != 204 else ()), END)
    for _ in range(2):
        ours = await sent_by(LeanCycle, *messages, **changes)
        theirs = await sent_by(RequestResponseCycle, *messages, **changes)
        assert ours == theirs


async def test_a_head_goes_with_a_small_chunk_that_follows_and_else_alone() -> None:
    writes: list[bytes] = []

    class Noting(LeanCycle):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.transport.write = writes.append

    large = {**CHUNK, "body": b"x" * (SMALL_BYTES + 1)}
    for messages, begin in (
        ((CHUNK, CHUNK, END), [b"HTTP", b"9\r\nd", b"0\r\n\r"]),
        ((large, END), [b"HTTP", b"401\r", b"0\r\n\r"]),
        ((), [b"HTTP"]),
        ((END,), [b"HTTP", b"0\r\n\r"]),
    ):
        await sent_by(Noting, start(STREAM), *messages)
        assert [write[:4] for write in writes] == begin
        writes.clear()
    await sent_by(Noting, start(STREAM), CHUNK)
    assert writes[0].endswith(b"\r\n\r\n9\r\ndata: 1\n\n\r\n")


async def test_a_length_is_kept_to() -> None:
    headers = ((b"content-length", b"9"),)
    ours = await sent_by(LeanCycle, start(headers), {**CHUNK, "more_body": False})
    assert ours.endswith(b"content-length: 9\r\n\r\ndata: 1\n\n")


@pytest.mark.parametrize("header", [(b"x-bad name", b"1"), (b"x-bad", b"1\r\nx-forged: 2")])
async def test_what_may_not_stand_in_a_header_is_refused(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(RuntimeError, match="Invalid HTTP header"):
        await sent_by(LeanCycle, start((*STREAM, header)))


async def test_a_body_before_the_start_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected ASGI message"):
        await sent_by(LeanCycle, CHUNK)


async def test_nothing_is_written_to_a_client_that_has_left() -> None:
    class Left(LeanCycle):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.disconnected = True

    assert await sent_by(Left, start(STREAM), CHUNK) == b""


async def test_what_is_raised_outside_of_django_is_the_envelope_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise ImportError("secret words")

    written = await sent_by(LeanCycle, then=lambda cycle: cycle.run_asgi(broken))
    head, _, body = written.removesuffix(b"<closed>").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 ")
    assert b"\r\nx-content-type-options: nosniff" in head
    assert json.loads(body)["error"]["code"] == "INTERNAL_ERROR"
    assert b"secret" not in written
    assert "secret words" in caplog.text
