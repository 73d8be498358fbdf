"""Turns on a journal that keeps lines a moment later, as one elsewhere does."""

import asyncio
import errno

import pytest

from chat.storage.journal import Fenced, JournalTimedOut, OwnerExpired, line
from chat.turn.state_machine import State
from models_app.language_model import Finished, TextDelta
from sessions_app.errors import SessionBusy
from tests.contract.memory_journal import MemoryJournal
from tests.unit.chat.listening import read_all
from tests.unit.chat.turns import HELLO, WAIT, Calculator, call, listen, names, run


@pytest.fixture
def journal():
    return MemoryJournal()


@pytest.fixture
def house(make_house, journal):
    return make_house(Calculator(), journal=journal)


async def test_every_event_is_in_the_journal_before_a_listener_has_it(house, journal):
    house.model.say_text(*"abcdefgh")
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    while shown := await turn.first_subscription.next():
        kept = [entry.n for entry in journal.read(session_id, turn.turn_id).entries]
        assert {event.number for event in shown} <= set(kept)
    assert (await turn.finished()).state is State.COMPLETED
    assert journal.has_ended(session_id, turn.turn_id)
    assert (await house.messages(session_id))[-1].content == "abcdefgh"


async def test_a_turn_with_tools_is_the_same_turn(house, make_house):
    async def events(place):
        place.model.say([call("c1", a=1, b=2)], [Finished()])
        place.model.say_text("Three.")
        return names((await run(place, await place.new_session(tools=["add"])))[0])

    assert await events(house) == await events(make_house(Calculator()))


async def test_a_call_does_not_run_before_the_journal_has_it(house, journal):
    house.model.say([call("c1", wait=True)], [Finished()])
    session_id = await house.new_session(tools=["add"])
    turn = await house.turns.start(session_id, HELLO)
    await house.turns._preparer.toolset.waiting.wait()
    entries = journal.read(session_id, turn.turn_id).entries
    assert "tool_call" in [entry.event for entry in entries]
    await house.turns.cancel(session_id)
    assert names(await listen(turn))[-1] == "done"


async def test_a_journal_that_fails_ends_the_turn_and_nothing_of_it_is_shown(house, journal):
    house.model.say([TextDelta("kept")], [TextDelta("lost")], WAIT, [TextDelta("never")])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    while (await turn.first_subscription.next())[-1].name != "content_delta":
        pass
    journal.writers[-1].fail(OSError(errno.ENOSPC, "full"))
    await house.model.asked.wait()
    house.model.go_on.set()
    rest = await read_all(turn.first_subscription)
    assert [event.name for event in rest] == ["error", "done"]
    assert (await turn.finished()).state is State.FAILED


async def test_who_attaches_elsewhere_follows_the_journal(house):
    house.model.say([TextDelta("a")], WAIT, [TextDelta("b")], [Finished()])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    follower = await house.remote.listen(session_id, turn.turn_id)
    house.model.go_on.set()
    async with asyncio.timeout(20):
        received = [event.name for event in await read_all(follower)]
    assert received.count("content_delta") == 2
    assert received[-1] == "done"


async def test_two_who_seal_the_same_turn_end_it_once(house, journal):
    house.model.say([TextDelta("Half")], WAIT)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    await turn.committed()
    session = await asyncio.to_thread(house.sessions.repository.load, session_id)
    while "content_delta" not in [
        entry.event for entry in journal.read(session_id, turn.turn_id).entries
    ]:
        await asyncio.sleep(0)

    first = journal.take_over(session_id, turn.turn_id)
    await asyncio.to_thread(house.recovery.end_journals, session)
    with pytest.raises(Fenced):
        first.append("late\n")
    await house.turns.shutdown(grace_seconds=0)

    events = [entry.event for entry in journal.read(session_id, turn.turn_id).entries]
    assert events[-2:] == ["error", "done"]
    assert events.count("done") == 1


class ContestedJournal(MemoryJournal):
    """A journal that is taken over from whoever takes it over."""

    def take_over(self, session_id, turn_id):
        taken = super().take_over(session_id, turn_id)
        super().take_over(session_id, turn_id)
        return taken


async def test_a_sealer_that_is_fenced_off_leaves_the_turn_to_the_other_one(make_house):
    journal = ContestedJournal()
    house = make_house(journal=journal)
    house.model.say_text("Half")
    session_id = await house.new_session()
    session = await asyncio.to_thread(house.sessions.repository.load, session_id)
    writer = journal.open(session_id, "0" * 20, owner="me")
    writer.append(line(1, "turn_started", "{}"))
    await writer.flushed()
    writer.close()
    with pytest.raises(SessionBusy):
        await asyncio.to_thread(house.recovery.end_journals, session)
    assert journal.broken() == []
    assert journal.turns(session_id) == ["0" * 20]


class CondemningJournal(MemoryJournal):
    """A journal that takes the first process that begins a turn for dead, as others did."""

    def __init__(self, liveness_files):
        super().__init__()
        self.refused = 0
        self._liveness_files = liveness_files

    def open(self, session_id, turn_id, *, owner):
        if not self.refused:
            self.refused += 1
            (self._liveness_files / f"{owner}.lock").unlink()
            raise OwnerExpired(owner)
        return super().open(session_id, turn_id, owner=owner)


async def test_a_process_that_was_given_up_begins_its_turn_under_its_new_id(make_house, data_dir):
    journal = CondemningJournal(data_dir / "chat_sessions" / ".claims" / "workers")
    house = make_house(journal=journal)
    house.model.say_text("Hello")
    _, outcome = await run(house, await house.new_session())
    assert outcome.state is State.COMPLETED
    assert journal.refused == 1


async def test_a_journal_that_is_away_for_too_long_ends_a_turn_that_says_nothing(house, journal):
    house.model.say([TextDelta("kept")], WAIT)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    while (await turn.first_subscription.next())[-1].name != "content_delta":
        pass
    await house.model.asked.wait()
    away = JournalTimedOut(errno.ETIMEDOUT, "away")
    journal.writers[-1].fail(away)
    journal.writers[-1].troubled(away)
    rest = await read_all(turn.first_subscription)
    assert [event.name for event in rest] == ["error", "done"]
    assert rest[0].decode().code == "SERVICE_UNAVAILABLE"
    assert (await turn.finished()).state is State.FAILED
    answer = (await house.messages(session_id))[-1]
    assert (answer.content, answer.interrupted) == ("kept", True)


async def test_a_turn_whose_journal_was_taken_over_ends_at_once(house, journal):
    house.model.say([TextDelta("kept")], WAIT)
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    fenced = Fenced(errno.EPERM, "taken over")
    journal.writers[-1].fail(fenced)
    journal.writers[-1].troubled(fenced)
    rest = await read_all(turn.first_subscription)
    assert "done" not in [event.name for event in rest]  # others tell how it ends
    assert (await turn.finished()).state is State.LOST


async def test_a_turn_whose_journal_was_lost_goes_on_for_its_listeners(house, journal):
    house.model.say([TextDelta("kept")], WAIT, [TextDelta(" lost")], [Finished()])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    while (await turn.first_subscription.next())[-1].name != "content_delta":
        pass
    journalled = turn.stream.journalled
    journal.writers[-1].lose()
    house.model.go_on.set()
    rest = await read_all(turn.first_subscription)
    assert [event.name for event in rest] == ["content_delta", "message_complete", "done"]
    assert (await turn.finished()).state is State.COMPLETED
    assert (await house.messages(session_id))[-1].content == "kept lost"
    assert (turn.stream.journalled, turn.stream.last_number) == (journalled, journalled + 3)


async def test_who_would_have_to_read_what_was_lost_gets_an_end(house, journal):
    house.model.say([TextDelta("kept")], WAIT, [TextDelta(" lost")], [Finished()])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    while (await turn.first_subscription.next())[-1].name != "content_delta":
        pass
    journal.move_aside(session_id, turn.turn_id)
    journal.writers[-1].lose()
    late = turn.stream.subscribe(after=1)
    house.model.go_on.set()
    events = await read_all(late)
    assert [(event.number, event.name) for event in events] == [(2, "error"), (3, "done")]
    await turn.finished()
