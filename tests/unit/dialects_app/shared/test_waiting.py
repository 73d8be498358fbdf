"""What becomes of a request while a turn of its session runs."""

from typing import Any

import pytest

from chat.errors import NoActiveTurn
from chat.service import ChatRequest
from chat.start.turn_request import TurnRequest
from dialects_app.shared import waiting
from dialects_app.shared.waiting import interrupting, open_or_queue
from sessions_app.errors import SessionBusy, ValidationFailed
from tests.unit.dialects_app.chat_completions.journals import TURN

REQUEST = ChatRequest(turn=TurnRequest(message="Hello"))


class Inbox:
    """Remembers what it is asked for."""

    def __init__(self, when_busy: str = "refuse") -> None:
        self.when_busy = when_busy
        self.asked: list[str] = []

    async def open(self, request: ChatRequest, key: Any, *, when_busy: str) -> None:
        self.asked.append(when_busy)


async def asked(when_busy: str | None, *, default: str = "refuse") -> list[str]:
    inbox: Any = Inbox(default)
    how: Any = when_busy
    supported = ("queue", "interrupt")
    await open_or_queue(inbox, REQUEST, when_busy=how, supported=supported, field="whenBusy")
    return list(inbox.asked)


async def test_a_request_decides_and_else_the_setting() -> None:
    assert await asked("queue") == ["queue"]
    assert await asked("refuse", default="queue") == ["refuse"]
    assert await asked(None, default="interrupt") == ["interrupt"]
    assert await asked(None) == ["refuse"]


async def test_what_a_protocol_can_not_show_is_refused_if_the_client_says_so() -> None:
    assert await asked(None, default="steer") == ["refuse"]
    with pytest.raises(ValidationFailed, match="queue, interrupt") as refused:
        await asked("steer")
    assert refused.value.details["field"] == "whenBusy"


async def test_what_runs_is_cancelled_until_the_turn_can_start(monkeypatch) -> None:
    cancelled: list[str] = []

    class Turns:
        async def cancel(self, session_id: str) -> None:
            cancelled.append(session_id)
            if len(cancelled) > 1:
                raise NoActiveTurn(session_id)  # it ended by itself just now

    monkeypatch.setattr(waiting, "service", lambda _: Turns())

    async def start() -> str:
        if len(cancelled) < 2:
            raise SessionBusy("a1b2c3d4e5", TURN)
        return "started"

    assert await interrupting(start) == "started"
    assert cancelled == ["a1b2c3d4e5"] * 2


async def test_a_session_that_stays_busy_is_refused_in_the_end(monkeypatch) -> None:
    class Turns:
        async def cancel(self, session_id: str) -> None:
            raise NoActiveTurn(session_id)

    async def start() -> str:
        raise SessionBusy("a1b2c3d4e5", TURN)

    monkeypatch.setattr(waiting, "service", lambda _: Turns())
    monkeypatch.setattr(waiting, "INTERRUPTION_SECONDS", 0)
    with pytest.raises(SessionBusy):
        await interrupting(start)
