"""Following a journal whose store loses some of it, or is away for a while."""

import asyncio

import msgspec
import pytest

from chat.remote import journal_follower
from chat.remote.journal_follower import JournalFollower
from chat.storage.journal import Entry, JournalSlice
from sessions_app.errors import StorageUnavailable
from tests.unit.chat.listening import read_all


class ToldJournal:
    """A journal whose next passages a test tells; an error is raised."""

    def __init__(self):
        self.told = []
        self.changed = lambda: None

    def say(self, *numbers, done=False):
        events = ["content_delta"] * len(numbers)
        events[-1] = "done" if done else events[-1]
        entries = zip(numbers, events, strict=True)
        self.told.append([Entry(n, name, msgspec.Raw(b"{}")) for n, name in entries])

    def read(self, session_id, turn_id, position):
        passage = self.told.pop(0) if self.told else []
        if isinstance(passage, Exception):
            raise passage
        return JournalSlice(passage, position)

    def watch(self, session_id, turn_id, changed):
        self.changed = changed
        return lambda: None


@pytest.fixture
def journal():
    return ToldJournal()


def follow(journal, settle=None):
    async def runs():
        return True

    return JournalFollower(
        session_id="s",
        turn_id="t",
        after=0,
        journal=journal,
        settle=settle or runs,
        settle_seconds=0.01,
    )


def seen(events):
    return [(event.number, event.name) for event in events]


async def test_a_gap_is_the_end_of_an_interrupted_turn(journal):
    journal.say(1, 2)
    journal.say(3, 5, 6, done=True)
    events = await read_all(follow(journal))
    assert seen(events) == [
        (1, "content_delta"),
        (2, "content_delta"),
        (3, "content_delta"),
        (4, "error"),
        (5, "done"),
    ]
    assert events[-2].decode().code == "TURN_INTERRUPTED"


async def test_notes_are_no_gap(journal):
    journal.say(1, 0, 2, 0, 3, done=True)
    assert [event.number for event in await read_all(follow(journal))] == [1, 2, 3]


async def test_a_store_that_is_away_is_waited_for(journal):
    away = StorageUnavailable("away")
    journal.say(1)
    journal.told += [away, away]
    journal.say(2, done=True)
    asked = []

    async def settle():
        asked.append(True)
        raise away

    events = await read_all(follow(journal, settle))
    assert seen(events) == [(1, "content_delta"), (2, "done")]
    assert len(asked) == 2


async def test_nobody_waits_for_ever(journal, monkeypatch):
    monkeypatch.setattr(journal_follower, "AWAY_SECONDS", 0.0)
    journal.say(1)
    journal.told += [StorageUnavailable("away")]
    events = await read_all(follow(journal))
    assert seen(events) == [(1, "content_delta"), (2, "error"), (3, "done")]


async def test_news_wake_a_listener(journal):
    journal.say(1)
    follower = follow(journal)
    await follower.next()
    waiting = asyncio.create_task(follower.next())
    await asyncio.sleep(0)
    journal.say(2)
    journal.changed()
    assert seen(await waiting) == [(2, "content_delta")]
    follower.close()
