"""A peer that takes nothing is dropped, and the log says so."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mochi_project.uvicorn_protocol.write_deadline import WriteDeadline


class Transport:
    """Holds bytes that its peer takes or does not take."""

    def __init__(self) -> None:
        self.waiting = 100
        self.aborted = asyncio.Event()

    def get_extra_info(self, _name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.aborted.set()


class Watched(WriteDeadline):
    """A connection with a deadline for its peer."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.loop = asyncio.get_running_loop()
        self.config = SimpleNamespace(write_timeout=0.01)
        self.flow = SimpleNamespace(pause_writing=lambda: None)


async def test_a_peer_that_takes_nothing_is_dropped_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport = Transport()

    Watched(transport).pause_writing()
    await transport.aborted.wait()

    assert "dropped a client that did not read for 0.01 seconds" in caplog.text
