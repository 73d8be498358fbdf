"""Turns that go on by themselves once a question that outlasted them is answered."""

import asyncio
from datetime import timedelta

import pytest

from chat.approvals import approver
from chat.approvals.confirmation import Decision, read_moment
from chat.start.answered_questions import AnsweredQuestions
from chat.start.turn_request import TurnRequest
from chat.turn.state_machine import State
from models_app.language_model import Finished
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import AssistantMessage, ToolCall, ToolMessage
from sessions_app.session import ToolSettings, append_messages
from tests.unit.chat.listening import read_all
from tests.unit.chat.turns import Calculator, call

ASK = TurnRequest(message="Add.", options={"temperature": 0.25})


@pytest.fixture
def house(make_house, monkeypatch):
    monkeypatch.setattr(approver, "WAITING_SECONDS", 0.02)
    return make_house(Calculator())


async def suspended(house, *calls, request=ASK):
    """Have a turn ask about calls and end; return its session and the questions."""
    house.model.say(calls or [call("c1", a=1, b=2)], [Finished()])
    settings = ToolSettings(tools=("add",), approval_timeout_seconds=86_400)
    session = await asyncio.to_thread(house.sessions.create, model="m", tool_settings=settings)
    turn = await house.turns.start(session.session_id, request)
    await read_all(turn.first_subscription)
    assert (await turn.finished()).state is State.SUSPENDED
    return session.session_id, await house.confirmations.pending(session.session_id)


async def told(house, session_id, messages):
    async with asyncio.timeout(30):
        while len(await house.messages(session_id)) < messages or house.turns.active_count:
            await asyncio.sleep(0.001)
    return await house.messages(session_id)


async def test_the_next_turn_has_the_request_of_the_first(house):
    house.turns.go_on()
    session_id, [question] = await suspended(house)
    house.model.say_text("Three.")
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=question.confirmation_id, approved=True)
    )
    assert [each.content for each in await told(house, session_id, 4)][2:] == ["3", "Three."]
    assert [each.options["temperature"] for each in house.model.requests] == [0.25, 0.25]


async def test_a_decision_that_nobody_noticed_is_found(house):
    session_id, [question] = await suspended(house)
    answered = AnsweredQuestions(house.confirmation_store)
    find = lambda: list(answered.sessions(house.repository.load))  # noqa: E731
    assert await asyncio.to_thread(find) == []
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=question.confirmation_id, approved=False)
    )
    assert await asyncio.to_thread(find) == [session_id]


async def test_an_expired_question_starts_nothing(house, monkeypatch):
    session_id, _ = await suspended(house)
    now = house.confirmation_store.now() + timedelta(days=2)
    monkeypatch.setattr(house.confirmation_store, "now", lambda: now)
    session = await asyncio.to_thread(house.sessions.get, session_id)
    answered = AnsweredQuestions(house.confirmation_store)
    assert await asyncio.to_thread(answered.request_of, session) is None
    assert await asyncio.to_thread(lambda: list(answered.sessions(house.repository.load))) == []


async def test_one_answer_of_two_starts_nothing_once_the_other_question_expires(house, monkeypatch):
    calls = [call("c1", a=1, b=2), call("c2", a=3, b=4)]
    session_id, [first, _] = await suspended(house, *calls)
    store = house.confirmation_store
    monkeypatch.setattr(store, "now", lambda: question_time(first, days=0.9))
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=first.confirmation_id, approved=True)
    )
    monkeypatch.setattr(store, "now", lambda: question_time(first, days=1.1))
    assert await house.confirmations.pending(session_id) == []
    session = await asyncio.to_thread(house.sessions.get, session_id)
    assert await asyncio.to_thread(AnsweredQuestions(store).request_of, session) is None


async def test_a_question_stays_as_long_as_its_answer_counts(house, monkeypatch):
    session_id, [question] = await suspended(house)
    store = house.confirmation_store
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=question.confirmation_id, approved=True)
    )
    monkeypatch.setattr(store, "now", lambda: question_time(question, days=1.5))
    assert await asyncio.to_thread(store.sweep, 0) == 0
    monkeypatch.setattr(store, "now", lambda: question_time(question, days=2.5))
    assert await asyncio.to_thread(store.sweep, 0) == 1


def question_time(question, days):
    return read_moment(question.created_at) + timedelta(days=days)


async def test_a_turn_of_which_calls_are_open_still_goes_on_by_itself_alone(house):
    house.turns.go_on()
    calls = [call("c1", a=1, b=2), call("c2", a=3, b=4)]
    session_id, [first, second] = await suspended(house, *calls)
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=first.confirmation_id, approved=True)
    )
    assert len(await house.confirmations.pending(session_id)) == 1
    assert len(await told(house, session_id, 2)) == 2
    house.model.say_text("Both.")
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=second.confirmation_id, approved=True)
    )
    contents = [each.content for each in await told(house, session_id, 5)]
    assert contents[2:] == ["3", "7", "Both."]


async def added(house, session_id, message):
    """Have a session end with a message, and return it."""

    def append(session):
        return append_messages(session, message, now=utc_now())

    return await asyncio.to_thread(house.repository.update_idle, session_id, append)


async def test_a_result_that_another_process_saved_does_not_keep_the_other_call_waiting(house):
    calls = [call("c1", a=1, b=2), call("c2", a=3, b=4)]
    session_id, [first, second] = await suspended(house, *calls)
    await asyncio.to_thread(house.confirmation_store.withdraw, [first])
    result = ToolMessage(
        content="3",
        message_id=new_message_id(),
        timestamp=utc_now(),
        tool_name="add",
        tool_call_id="c1",
    )
    await added(house, session_id, result)
    house.turns.go_on()
    house.model.say_text("Both.")
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=second.confirmation_id, approved=True)
    )
    contents = [each.content for each in await told(house, session_id, 5)]
    assert contents[2:] == ["3", "7", "Both."]


async def test_a_turn_that_can_not_begin_is_tried_until_it_has(house):
    session_id, [question] = await suspended(house)
    answered = AnsweredQuestions(house.confirmation_store)
    find = lambda: list(answered.sessions(house.repository.load))  # noqa: E731
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=question.confirmation_id, approved=True)
    )
    for _ in range(2):  # the process that had its claim is not known to be dead yet, say
        assert await asyncio.to_thread(find) == [session_id]
    house.turns.go_on()
    house.model.say_text("Three.")
    house.turns.answer_waiting(session_id)
    await told(house, session_id, 4)
    assert await asyncio.to_thread(find) == []


async def test_calls_of_a_client_wait_for_their_client(house):
    house.turns.go_on()
    session_id, [question] = await suspended(house)
    store = house.confirmation_store
    asked = {"message_id": "of_agent", "call_index": 0, "turn_id": question.turn_id}
    of_agent = ToolCall(id="c9", name="add", arguments={})
    ask = lambda: store.ask(  # noqa: E731
        session_id=session_id, call=of_agent, agent_name="helper", request={}, **asked
    )
    house.model.say_text("Three.")
    agents = await asyncio.to_thread(ask)
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=question.confirmation_id, approved=True)
    )
    await house.confirmations.decide(
        session_id, Decision(confirmation_id=agents.confirmation_id, approved=True)
    )
    await told(house, session_id, 4)
    left = ToolCall(id="c2", name="look", arguments={}, client_side=True)
    message = AssistantMessage(
        content="", message_id=new_message_id(), timestamp=utc_now(), model="m", tool_calls=(left,)
    )
    session = await added(house, session_id, message)
    answered = AnsweredQuestions(store)
    assert await asyncio.to_thread(answered.request_of, session) is None


@pytest.mark.parametrize(("of_session", "goes_on_alone"), [(86_400, True), (None, False)])
async def test_a_client_without_a_stream_goes_on_unless_its_session_is_one_of_long_questions(
    make_house, of_session, goes_on_alone
):
    house = make_house(Calculator(), confirmation_seconds=3600)
    house.model.say([call("c1", a=1, b=2)], [Finished()])
    settings = ToolSettings(tools=("add",), approval_timeout_seconds=of_session)
    session = await asyncio.to_thread(house.sessions.create, model="m", tool_settings=settings)
    turn = await house.turns.start(
        session.session_id, TurnRequest(message="Add.", approvals="suspend")
    )
    [question] = (await turn.finished()).confirmations
    assert (question.request is not None) is goes_on_alone
