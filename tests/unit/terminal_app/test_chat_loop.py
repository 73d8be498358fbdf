"""What a terminal does between two prompts of a conversation."""

import os
import pty
import sys
import termios
from collections.abc import Iterator
from typing import IO
from unittest.mock import AsyncMock, Mock

import pytest

from terminal_app.chat_loop import ChatLoop

INPUT = 0


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[IO[str]]:
    """Return a terminal that is stdin."""
    person, program = pty.openpty()
    with os.fdopen(program, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield stdin
    os.close(person)


def takes_lines(stdin: IO[str]) -> bool:
    return bool(termios.tcgetattr(stdin)[INPUT] & termios.ICRNL)


async def test_enter_stays_enter_before_a_prompt_is_open(keyboard: IO[str]) -> None:
    found = []

    async def read() -> str:
        found.append(takes_lines(keyboard))
        raise EOFError

    conversation = AsyncMock(**{"session.return_value": None, "is_busy.return_value": False})
    interrupt = Mock(wants_end=False)
    interrupt.stops.return_value.__enter__ = interrupt.stops.return_value.__exit__ = Mock(
        return_value=None
    )
    loop = ChatLoop(conversation, Mock(), Mock(read=read), Mock(), interrupt)

    await loop.run()

    assert found == [False]
    assert takes_lines(keyboard)
