"""What every listener of a turn does, whether it listens live, late, or through the journal.

Streams of other protocols are made from what a listener gets, so it has to be the same for all.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from chat.http.sse import encode_frames
from chat.remote.journal_follower import JournalFollower
from chat.storage.files.journals import FileTurnJournal
from chat.stream.events import (
    ContentDelta,
    Done,
    Event,
    StatusChanged,
    ToolCallStarted,
    TurnStarted,
)
from chat.stream.notes import RoundBegan
from chat.stream.numbered_event import Listener, NumberedEvent
from chat.stream.turn_stream import TurnStream
from tests.unit.chat.listening import read_all

SESSION, TURN = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
EVENTS: list[Event] = [
    TurnStarted(turn_id=TURN, session_id=SESSION, model="m"),
    ContentDelta(content='Hé said "\n"'),
    StatusChanged(state="waiting_for_tool"),
    ToolCallStarted(tool_name="t", arguments={"ü": [1]}, call_index=0, tool_call_id="c1"),
    ContentDelta(content="\U0001f600"),
    Done(session_id=SESSION),
]


class Turn:
    """A turn that says ``EVENTS``, and those who listen to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.journal = FileTurnJournal(root)
        self.stream = TurnStream(
            TURN,
            session_id=SESSION,
            writer=self.journal.open(SESSION, TURN, owner="me"),
            read_journal=partial(asyncio.to_thread, self.journal.read, SESSION, TURN),
            discard_journal=partial(asyncio.to_thread, self.journal.discard, SESSION, TURN),
        )

    def follow(self, after: int, root: Path | None = None) -> JournalFollower:
        async def ended() -> bool:
            return False

        journal = self.journal if root is None else FileTurnJournal(root)
        return JournalFollower(
            session_id=SESSION, turn_id=TURN, after=after, journal=journal, settle=ended
        )

    async def say_all(self) -> None:
        self.stream.emit(EVENTS[:2])
        self.stream.note(RoundBegan(message_id="m1", model="m"))
        self.stream.emit(EVENTS[2:-1])
        await self.stream.finish(EVENTS[-1:])


@pytest.fixture
async def turn(tmp_path: Path) -> AsyncIterator[Turn]:
    made = await asyncio.to_thread(Turn, tmp_path / "turns")
    yield made
    if not made.stream.ended:
        made.stream.close()


async def heard(turn: Turn, how: str, after: int, tmp_path: Path) -> list[NumberedEvent]:
    if how == "live":
        listener: Listener = turn.stream.subscribe(after)
        reading = asyncio.create_task(read_all(listener))
        await asyncio.sleep(0)
        await turn.say_all()
        return await reading
    await turn.say_all()
    if how == "late":
        return await read_all(turn.stream.subscribe(after))
    if how == "of another process":
        return await read_all(turn.follow(after))
    elsewhere = tmp_path / "restarted"
    await asyncio.to_thread(shutil.copytree, turn.root, elsewhere)
    return await read_all(turn.follow(after, elsewhere))


@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize("how", ["live", "late", "of another process", "after a restart"])
async def test_every_listener_gets_the_same_events(
    turn: Turn, how: str, after: int, tmp_path: Path
) -> None:
    received = await heard(turn, how, after if how != "live" else 0, tmp_path)
    received = [event for event in received if event.number > after]
    assert [event.number for event in received] == list(range(after + 1, len(EVENTS) + 1))
    assert [event.name for event in received] == [event.event for event in EVENTS[after:]]
    assert [event.decode() for event in received] == EVENTS[after:]
    assert all(event.data.isascii() and "\n" not in event.data for event in received)
    frames = encode_frames(TURN, received).decode().split("\n\n")[:-1]
    assert frames == [
        f"id: {TURN}:{event.number}\nevent: {event.name}\ndata: {event.data}" for event in received
    ]
