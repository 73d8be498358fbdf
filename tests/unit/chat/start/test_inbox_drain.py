"""What waits is answered after any death: of the process that took it, or of all of them."""

import asyncio
import itertools
from functools import partial

import pytest

from chat.start.answered_questions import AnsweredQuestions
from chat.start.inbox_drain import InboxDrain
from chat.start.queued_messages import QueuedPreparation
from chat.turn.session_writer import SessionWriter
from models_app.errors import ModelNotFound
from models_app.language_model import Finished, TextDelta
from sessions_app.inbox import InboxMessage
from sessions_app.messages import AssistantMessage, UserMessage
from sessions_app.session import append_messages, with_inbox
from sessions_app.store.repository import Hold
from tests.unit.chat.inbox.conftest import Desk
from tests.unit.chat.nodes import Node

NOW = "2026-11-21T10:00:00.000000+00:00"
STEPS = ["open a journal", "swap a session", "have swapped a session", "write a line"]


@pytest.fixture
async def nodes(data_dir):
    """Two processes that share sessions and journals."""
    first = Node(data_dir, "first")
    second = Node(data_dir, "second", beside=first)
    yield first, second
    for node in (first, second):
        await node.turns.shutdown(grace_seconds=0)


class Frozen:
    """Freezes a node at the nth of its steps of a kind; meanwhile another one ends its turns."""

    def __init__(self, node, other, step, number):
        self._steps = itertools.count()
        self._node, self._other, self._step, self._number = node, other, step, number
        self.was_reached = False
        node.at_each_step(self._reach)

    def _reach(self, step):
        if step == self._step and next(self._steps) == self._number:
            self.was_reached = True
            self._node.owners.condemn()
            self._other.recovery.seal_all()


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("step", STEPS)
async def test_a_process_that_dies_at_any_step_of_taking_leaves_the_message_said_once(
    nodes, step, number
):
    first, second = nodes
    desk, other = Desk(first), Desk(second)
    session_id = await desk.busy()
    queued = [await desk.queue(session_id, f"{n}") for n in range(2)]
    for node in nodes:
        for _ in range(6):
            node.model.say_text("Yes.")

    Frozen(first, second, step, number)
    first.model.go_on.set()

    await other.idle(session_id, messages=6)
    async with asyncio.timeout(20):
        while (await other.waiting(session_id))[1]:
            await asyncio.to_thread(second.recovery.seal_all)
            await asyncio.sleep(0.01)
    await other.idle(session_id, messages=6)
    messages = await second.messages(session_id)
    said = [each.message_id for each in messages if isinstance(each, UserMessage)]
    assert said[1:] == [each.message_id for each in queued]
    contents = [each.content for each in messages]
    assert contents[contents.index("0") + 1] == contents[contents.index("1") + 1] == "Yes."


async def test_what_waited_when_all_died_is_answered_at_the_start(house, after_a_kill):
    desk = Desk(house)
    session_id = await desk.busy()
    for number in range(3):
        await desk.queue(session_id, f"{number}")
    started = await after_a_kill(house)
    for number in range(3):
        started.model.say_text(f"Answer {number}")
    after = Desk(started)
    started.repository.owners.lives = lambda owner: owner == started.repository.owners.mine()

    await asyncio.to_thread(started.recovery.seal_all)

    contents = await after.idle(session_id, messages=8)
    assert contents[2:] == ["0", "Answer 0", "1", "Answer 1", "2", "Answer 2"]
    await started.turns.shutdown(0)


async def test_what_was_queued_just_before_its_process_died_is_found_by_the_next(house):
    session_id = await house.new_session()
    message = InboxMessage(message_id="1", content="Hello?", queued_at=NOW)

    def queue(session):
        return with_inbox(session, session.inbox.append(message))

    await asyncio.to_thread(house.repository.update, session_id, queue)
    house.model.say_text("Hello!")
    desk = Desk(house)

    await asyncio.to_thread(house.recovery.seal_all)

    assert await desk.idle(session_id, messages=2) == ["Hello?", "Hello!"]


def take(session):
    """Return the session as a turn claims it that begins with a message from the inbox."""
    message = InboxMessage(message_id="1", content="Hello?", queued_at=NOW)
    said = UserMessage(content="Hello?", message_id="1", timestamp=NOW, turn_id="t1")
    taken = with_inbox(session, session.inbox.begin(message, "t1"))
    return append_messages(taken, said, now=NOW)


async def test_a_message_is_said_for_good_once_its_turn_adds_one_not_by_what_it_notes(house):
    """Who shortens the history and dies before anybody saw anything of the turn has not begun."""
    session_id = await house.new_session()
    repository = house.repository
    hold = Hold("t1", await asyncio.to_thread(repository.owners.mine))
    session, _ = await asyncio.to_thread(
        repository.claim,
        session_id,
        hold.turn_id,
        owner=hold.owner,
        change=lambda session: (take(session), None),
        recover=lambda session, _: session,
    )
    writer = SessionWriter(repository, session=session, hold=hold)
    await writer.keep_context(None)
    session = await asyncio.to_thread(repository.load, session_id)
    assert session.inbox.taken.message_id == "1"
    await writer.append(AssistantMessage(content="Well.", message_id="2", timestamp=NOW, model="m"))
    assert (await asyncio.to_thread(repository.load, session_id)).inbox.taken is None
    await writer.release()


async def test_a_visit_finds_what_was_taken_by_a_turn_whose_claim_was_lost(house):
    """After a power cut, of the write that claims only the session may be there."""
    session_id = await house.new_session()
    await asyncio.to_thread(house.repository.update, session_id, take)
    house.model.say_text("Hello!")
    desk = Desk(house)

    assert await house.turns.active(session_id) is None

    assert await desk.idle(session_id, messages=2) == ["Hello?", "Hello!"]


async def test_a_start_finds_what_was_taken_by_a_turn_whose_claim_was_lost(house):
    session_id = await house.new_session()
    await asyncio.to_thread(house.repository.update, session_id, take)
    house.model.say_text("Hello!")
    desk = Desk(house)

    await asyncio.to_thread(house.recovery.seal_all)

    assert await desk.idle(session_id, messages=2) == ["Hello?", "Hello!"]


async def test_what_a_stopped_server_leaves_is_answered_by_the_next(house, after_a_kill):
    desk = Desk(house)
    session_id = await desk.busy()
    await desk.queue(session_id, "Later?")
    await house.turns.shutdown(grace_seconds=0)
    assert (await desk.waiting(session_id)) == (None, ["Later?"])
    started = await after_a_kill(house)
    started.model.say_text("Later.")
    after = Desk(started)

    await asyncio.to_thread(started.recovery.seal_all)

    assert (await after.idle(session_id, messages=4))[2:] == ["Later?", "Later."]
    await started.turns.shutdown(0)


async def test_a_backup_has_what_waits(house):
    desk = Desk(house)
    session_id = await desk.busy()
    await desk.queue(session_id, "Later?")

    copy = await asyncio.to_thread(house.recovery.copy_of, session_id)

    assert [each.content for each in copy.inbox.messages] == ["Later?"]


async def test_what_another_process_took_meanwhile_is_neither_paused_nor_forgotten(nodes):
    first, second = nodes
    session_id = await first.new_session()
    waiting = [InboxMessage(message_id=each, content=each, queued_at=NOW) for each in "12"]

    def queue(session):
        inbox = session.inbox
        for each in waiting:
            inbox = inbox.append(each)
        return with_inbox(session, inbox)

    await asyncio.to_thread(first.repository.update, session_id, queue)
    for node in nodes:
        node.model.say([TextDelta("Yes.")], ..., [Finished()])
    looked = asyncio.Event()

    async def look_in_vain(session_id, preparation):
        await preparation.look_up(await asyncio.to_thread(first.repository.load, session_id))
        second.turns.go_on()
        second.turns.answer_waiting(session_id)
        await second.model.asked.wait()
        raise ModelNotFound("model 'm' not found")

    async def in_thread(call):
        try:
            return await asyncio.to_thread(call)
        finally:
            looked.set()

    answered = AnsweredQuestions(first.confirmation_store)
    prepare = partial(QueuedPreparation, first.preparer, answered)
    drain = InboxDrain(look_in_vain, prepare, first.repository, first.recovery, in_thread)
    drain.begin(session_id)
    await looked.wait()

    inbox = (await asyncio.to_thread(first.repository.load, session_id)).inbox
    assert (inbox.paused, inbox.taken.message_id) == (None, "1")
    second.model.say_text("Yes.")
    second.model.go_on.set()
    await Desk(second).idle(session_id, messages=4)


async def test_an_inbox_in_which_nothing_waits_takes_no_place_of_another_turn(nodes):
    node, _ = nodes
    session_id = await node.new_session()
    started = []

    async def start_next(session_id, preparation):
        started.append(session_id)

    prepare = partial(QueuedPreparation, node.preparer, AnsweredQuestions(node.confirmation_store))
    drain = InboxDrain(start_next, prepare, node.repository, node.recovery, asyncio.to_thread)
    drain.begin(session_id)
    async with asyncio.timeout(20):
        while drain.is_busy:
            await asyncio.sleep(0.01)
    assert started == []
