"""Requests that are sent again under their ``Idempotency-Key`` after their process was given up.

Whatever of the turn was kept by then, and wherever the request arrives: it stands in the session
once, and it has one answer.
"""

import asyncio
import errno
import itertools

import pytest

from chat.errors import TurnInterrupted
from chat.service import ChatRequest, ChatService
from chat.start.turn_request import TurnRequest
from chat.storage.journal import JournalTimedOut
from models_app.language_model import TextDelta
from sessions_app.errors import MochiError
from sessions_app.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.contract.memory_journal import MemoryWriter
from tests.unit.chat.keys import keys_in
from tests.unit.chat.listening import names, read_all
from tests.unit.chat.nodes import Node
from tests.unit.chat.test_lost_turns import STEPS, Freeze, Marker, say_answer, say_call

WAIT_SECONDS = 10


class Machine(Node):
    """A node with the service that requests with a key come to."""

    def __init__(self, data_dir, name, *, keys, **how):
        super().__init__(data_dir, name, **how)
        self.service = ChatService(
            saved=self.space, ephemeral=self.space, keys=keys, default_model=self.default_model
        )

    async def ask(self, session_id):
        """Send the request; return what it heard, or the error that it was refused with."""
        turn = TurnRequest(message="Hello!", detached=True)
        try:
            opened = await self.service.open(ChatRequest(turn=turn, session_id=session_id), "k")
            await opened.committed()
        except MochiError as error:
            return error
        return await read_all(opened.listener)


@pytest.fixture
def way():
    """Return the way to the journal, which is cut off until this is set."""
    return asyncio.Event()


@pytest.fixture
async def make_machines(data_dir, way):
    made = []

    def make(toolset=None):
        keys = keys_in(data_dir / "keys")
        first = Machine(data_dir, "first", keys=keys, toolset=toolset)
        second = Machine(data_dir, "second", keys=keys, beside=first, toolset=toolset)
        made.extend([first, second])
        return first, second

    yield make
    way.set()
    for machine in made:
        await machine.turns.shutdown(grace_seconds=0)


async def has_ended(machine):
    """Wait until a machine has no turn, and has done what follows from the end of its last."""
    while machine.turns.active_count:
        await asyncio.sleep(0.001)
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    await machine.turns.shutdown(grace_seconds=0)


async def ask_until_done(machine, session_id):
    """Send the request again until it has an end, as clients do."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not (isinstance(heard := await machine.ask(session_id), list) and heard):
            await asyncio.sleep(0.001)
    assert names(heard)[0] == "turn_started"
    assert names(heard)[-1] == "done"
    assert [event.number for event in heard] == list(range(1, len(heard) + 1))
    return heard


def check(messages, heard):
    """Assert that the request was said once, and answered or broken off once."""
    assert [m.content for m in messages if isinstance(m, UserMessage)] == ["Hello!"]
    answers = [m for m in messages if isinstance(m, AssistantMessage) and not m.tool_calls]
    assert len(answers) <= 1
    results = [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]
    assert len(results) == len(set(results))
    assert names(heard).count("tool_continuation_start") <= 1
    assert ("message_complete" in names(heard)) is bool(answers and answers[0].is_complete)


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("say", [say_answer, say_call])
@pytest.mark.parametrize("step", STEPS)
async def test_a_request_whose_process_is_frozen_at_any_step_is_answered_once(
    make_machines, step, say, is_told
):
    for number in itertools.count():
        first, second = make_machines(Marker())
        for each in (first, second):
            say(each)
            say_answer(each)
        session_id = await first.new_session(tools=["t"])
        freeze = Freeze(first, second, step, number, is_told=is_told)
        async with asyncio.timeout(WAIT_SECONDS):
            await first.ask(session_id)
            await has_ended(first)
        if not freeze.is_over:
            break
        await asyncio.to_thread(second.recovery.seal_all)

        heard = await ask_until_done(second, session_id)

        check(await second.messages(session_id), heard)
    assert number


@pytest.fixture
def cut_off(make_machines, way):
    """Return how to have a machine asked that writes sessions, but whose journal keeps nothing."""

    async def begin(is_saved, say):
        first, second = make_machines(Marker())
        first.journal.arrive = way.wait
        say(first)
        say_answer(second)
        session_id = await first.new_session(tools=["t"])
        asking = asyncio.create_task(first.ask(session_id))
        async with asyncio.timeout(WAIT_SECONDS):
            while not is_saved(await second.messages(session_id)):
                await asyncio.sleep(0.001)
            while not first.model.requests:
                await asyncio.sleep(0.001)
        return first, second, session_id, asking

    return begin


async def give_up(first, second, asking, way):
    """Let a machine find the other one dead, and seal its turns before that one has a way again."""
    first.owners.condemn()
    await asyncio.to_thread(second.recovery.seal_all)
    way.set()
    async with asyncio.timeout(WAIT_SECONDS):
        heard = await asking
        await has_ended(first)
    assert isinstance(heard, TurnInterrupted) or not heard


async def test_an_answer_of_which_no_event_was_kept_is_found_by_its_key(cut_off, way):
    first, second, session_id, asking = await cut_off(
        lambda messages: len(messages) == 2, say_answer
    )
    while first.repository.claim_of(session_id):
        await asyncio.sleep(0.001)
    await give_up(first, second, asking, way)

    heard = await ask_until_done(second, session_id)

    messages = await second.messages(session_id)
    check(messages, heard)
    assert names(heard) == ["turn_started", "content_delta", "message_complete", "done"]
    [started, delta, complete, _] = (event.decode() for event in heard)
    question, answer = messages
    assert started.user_message_id == question.message_id
    assert started.message_id == complete.message_id == answer.message_id
    assert delta.content == complete.content == "Half an answer."
    assert second.model.requests == []


async def test_calls_of_which_no_event_was_kept_are_not_asked_for_again(cut_off, way):
    first, second, session_id, asking = await cut_off(lambda messages: len(messages) == 2, say_call)
    await give_up(first, second, asking, way)

    heard = await ask_until_done(second, session_id)

    messages = await second.messages(session_id)
    check(messages, heard)
    assert names(heard) == ["turn_started", "content_delta", "error", "done"]
    assert heard[-2].decode().code == "TURN_INTERRUPTED"
    assert second.model.requests == []
    assert messages[1].tool_calls == (ToolCall(id="c1", name="t", arguments={}),)


async def test_a_question_of_which_no_event_was_kept_is_asked_anew(cut_off, way):
    first, second, session_id, asking = await cut_off(
        lambda messages: len(messages) == 1, lambda node: node.model.say(...)
    )
    await first.model.asked.wait()
    await give_up(first, second, asking, way)

    heard = await ask_until_done(second, session_id)

    check(await second.messages(session_id), heard)
    assert heard[-2].name == "message_complete"


@pytest.mark.parametrize("say", [say_answer, say_call])
async def test_a_turn_whose_journal_takes_no_event_is_found_by_its_key_if_it_saved_any(
    make_machines, monkeypatch, say
):
    """As on a disk of its own that is full; the sessions' has room."""
    first, second = make_machines(Marker())
    append = MemoryWriter.append

    def full(writer, lines, *kept):
        if '"turn_started"' in lines:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(writer, lines, *kept)

    say(first)
    say_answer(second)
    session_id = await first.new_session(tools=["t"])
    with monkeypatch.context() as disk:
        disk.setattr(MemoryWriter, "append", full)
        told = await first.ask(session_id)
        await has_ended(first)
    assert (names(told)[0], names(told)[-2:]) == ("turn_started", ["error", "done"])
    assert told[-2].decode().code == "STORAGE_FULL"

    heard = await ask_until_done(second, session_id)

    messages = await second.messages(session_id)
    check(messages, heard)
    assert isinstance(messages[1], AssistantMessage)
    assert second.model.requests == []


async def test_a_turn_of_which_no_event_could_be_kept_tells_its_listeners_all_the_same(
    cut_off, way
):
    first, _, _, asking = await cut_off(
        lambda messages: len(messages) == 1,
        lambda node: node.model.say([TextDelta("Half")], ...),
    )
    await first.model.asked.wait()
    away = JournalTimedOut(errno.ETIMEDOUT, "away")
    first.journal.writers[-1].fail(away)
    first.journal.writers[-1].troubled(away)
    way.set()

    async with asyncio.timeout(WAIT_SECONDS):
        told = await asking

    assert names(told) == ["turn_started", "error", "done"]
    assert [event.number for event in told] == [1, 2, 3]
