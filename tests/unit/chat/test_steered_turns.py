"""Messages that people send while a turn runs are in its next request to the model."""

import asyncio
import json

import msgspec
import pytest

from chat.remote.replay import replay
from chat.storage.journal import whole_journal
from chat.turn.state_machine import Input, State
from models_app.language_model import Finished, TextDelta
from sessions_app.inbox import InboxMessage
from sessions_app.messages import ToolMessage, UserMessage
from sessions_app.session import with_inbox
from tests.unit.chat.turns import HELLO, WAIT, Calculator, call, listen, names
from tools_app.toolset import ToolResult


class SlowCalculator(Calculator):
    """Runs its calls until it is told to go on."""

    def __init__(self):
        super().__init__()
        self.go_on = asyncio.Event()

    async def call_tool(self, invocation):
        self.waiting.set()
        await self.go_on.wait()
        return ToolResult(success=True, result="3")


@pytest.fixture
def tools():
    return SlowCalculator()


@pytest.fixture
def house(make_house, tools):
    return make_house(tools)


def steer(number, when_busy="steer"):
    return InboxMessage(
        message_id=f"steer{number}",
        content=f"Rather {number}.",
        when_busy=when_busy,
        queued_at="2026-11-28T12:00:00.000000+00:00",
    )


async def put(house, session_id, *messages):
    def change(session):
        inbox = session.inbox
        for each in messages:
            inbox = inbox.append(each)
        return with_inbox(session, inbox)

    await asyncio.to_thread(house.repository.update, session_id, change)


async def begin(house, *, calls=1):
    """Start a turn that runs tools, and then answers."""
    asked = [call(f"c{number}", a=1, b=number) for number in range(calls)]
    house.model.say([TextDelta("I add."), *asked], [Finished()])
    house.model.say_text("Done.")
    session_id = await house.new_session(tools=["add"])
    return await house.turns.start(session_id, HELLO)


def roles(request):
    return [message.role for message in request.messages]


@pytest.mark.parametrize("calls", [1, 3])
async def test_messages_that_come_while_tools_run_follow_all_their_results(house, tools, calls):
    turn = await begin(house, calls=calls)
    await tools.waiting.wait()
    await put(house, turn.session_id, steer(1), steer(2))
    tools.go_on.set()
    events = await listen(turn)
    shown = [name for name in names(events) if name != "tool_call"]
    assert shown == [
        "turn_started",
        "content_delta",
        *["tool_result"] * calls,
        "message_taken",
        "message_taken",
        "tool_continuation_start",
        "content_delta",
        "message_complete",
        "done",
    ]
    assert roles(house.model.requests[1]) == [
        "user",
        "assistant",
        *["tool"] * calls,
        "user",
        "user",
    ]
    messages = await house.messages(turn.session_id)
    taken = [data for name, data in events if name == "message_taken"]
    for data, number in zip(taken, (1, 2), strict=True):
        message = messages[data["user_message_index"]]
        assert isinstance(message, UserMessage)
        assert (message.message_id, message.turn_id) == (f"steer{number}", turn.turn_id)
        assert data == {
            "message_id": f"steer{number}",
            "content": message.content,
            "user_message_index": 1 + calls + number,
            "when_busy": "steer",
        }
    session = await asyncio.to_thread(house.repository.load, turn.session_id)
    assert session.inbox.messages == ()
    assert session.metadata.queued is None


async def test_a_message_keeps_what_its_client_calls_it(house, tools):
    turn = await begin(house)
    await tools.waiting.wait()
    named = msgspec.structs.replace(steer(1), request={"extra": {"client_id": "m2"}})
    await put(house, turn.session_id, named)
    tools.go_on.set()
    await listen(turn)
    [message] = [m for m in await house.messages(turn.session_id) if m.message_id == "steer1"]
    assert message.extra == {"client_id": "m2"}


async def test_a_message_that_no_request_follows_stays_the_first_of_the_inbox(house, tools):
    tools.go_on.set()
    house.model.say([TextDelta("Half")], WAIT, [TextDelta(" of it.")], [Finished()])
    session_id = await house.new_session()
    turn = await house.turns.start(session_id, HELLO)
    await house.model.asked.wait()
    await put(house, session_id, steer(1, "queue"), steer(2))
    house.model.go_on.set()
    assert "message_taken" not in names(await listen(turn))
    session = await asyncio.to_thread(house.repository.load, session_id)
    assert [each.message_id for each in session.inbox.messages] == ["steer2", "steer1"]


async def test_the_last_round_takes_no_message(make_house, tools):
    house = make_house(tools)  # three rounds
    for number in range(3):
        house.model.say([call(f"c{number}", a=1, b=number)], [Finished()])
    session_id = await house.new_session(tools=["add"])
    turn = await house.turns.start(session_id, HELLO)
    await tools.waiting.wait()
    tools.go_on.set()
    while len(house.model.requests) < 3:
        await asyncio.sleep(0.001)
    await put(house, session_id, steer(1))
    events = await listen(turn)
    assert names(events)[-2:] == ["error", "done"]
    session = await asyncio.to_thread(house.repository.load, session_id)
    taken = [m for m in session.messages if isinstance(m, UserMessage)]
    assert len(session.inbox.messages) + len(taken) == 2  # never lost, never twice


async def test_messages_of_other_kinds_stay_where_they_are(house, tools):
    turn = await begin(house)
    await tools.waiting.wait()
    await put(house, turn.session_id, steer(1, "queue"), steer(2, "interrupt"))
    tools.go_on.set()
    assert "message_taken" not in names(await listen(turn))
    session = await asyncio.to_thread(house.repository.load, turn.session_id)
    assert len(session.inbox.messages) == 2


async def test_a_signal_has_the_turn_look_where_its_own_writes_showed_nothing(house, tools):
    turn = await begin(house)
    await tools.waiting.wait()
    real = turn.engine.actions.session_writer.append

    async def append(*messages, **how):
        await real(*messages, **how)
        if isinstance(messages[0], ToolMessage):  # just after the last write of the round
            await put(house, turn.session_id, steer(1))
            await asyncio.to_thread(house.signals.send, turn.turn_id, "inbox")
            while await asyncio.to_thread(house.signals.is_waiting, turn.turn_id, "inbox"):
                await asyncio.sleep(0.001)

    turn.engine.actions.session_writer.append = append
    tools.go_on.set()
    assert "message_taken" in names(await listen(turn))
    assert roles(house.model.requests[1])[-1] == "user"


async def test_a_turn_without_such_messages_writes_and_reads_nothing_more(
    house, tools, monkeypatch
):
    tools.go_on.set()
    writes = []
    update = house.repository.update

    def counted(*arguments, **how):
        writes.append(arguments)
        return update(*arguments, **how)

    monkeypatch.setattr(house.repository, "update", counted)
    turn = await begin(house)
    await listen(turn)
    assert len(writes) == 3  # the calls, the result, the answer


async def test_a_message_is_told_of_even_if_the_turn_is_cancelled_once_it_has_it(house, tools):
    turn = await begin(house)
    await tools.waiting.wait()
    await put(house, turn.session_id, steer(1))
    real = house.repository.update

    def update(*arguments, **how):
        session = real(*arguments, **how)
        if isinstance(session.messages[-1], UserMessage):
            loop.call_soon_threadsafe(turn.engine.stop, Input.CANCEL_REQUESTED)
        return session

    loop = asyncio.get_running_loop()
    house.repository.update = update
    tools.go_on.set()
    events = await listen(turn)
    assert (await turn.finished()).state is State.CANCELLED
    assert names(events).count("message_taken") == 1
    kinds = [m.role for m in await house.messages(turn.session_id)]
    assert kinds == ["user", "assistant", "tool", "user", "assistant"]


async def test_the_journal_of_a_steered_turn_is_replayed_as_it_was(house, tools):
    turn = await begin(house)
    await tools.waiting.wait()
    await put(house, turn.session_id, steer(1))
    tools.go_on.set()
    events = await listen(turn)
    entries = await asyncio.to_thread(
        lambda: list(whole_journal(house.journal, turn.session_id, turn.turn_id))
    )
    assert [(e.event, json.loads(bytes(e.data))) for e in entries if e.n] == events
    assert replay(entries).has_ended
