"""Turns that bring messages, instructions and options of their own."""

import asyncio

import msgspec
import pytest

from chat.errors import MissingToolResult, NothingToContinue
from chat.service import ChatRequest, ChatService
from chat.start.turn_request import TurnRequest
from models_app.errors import ModelNotFound, ServiceUnavailable
from sessions_app.errors import SessionExists, ValidationFailed
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import (
    AssistantMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.session import append_messages, make_session
from tests.unit.chat.turns import run


def said(kind, content, **how):
    return kind(content=content, message_id=new_message_id(), timestamp=utc_now(), **how)


def user(content):
    return said(UserMessage, content)


def asking(*ids):
    calls = [ToolCall(id=it, name="weather", arguments={}, client_side=True) for it in ids]
    return said(AssistantMessage, "", tool_calls=calls)


def result(call_id, content="rain"):
    return said(ToolMessage, content, tool_call_id=call_id)


def told(house):
    """Return what the model was sent last: (role, content), ..."""
    return [(message.role, message.content) for message in house.model.requests[-1].messages]


async def kept(house, session_id):
    return [(message.role, message.content) for message in await house.messages(session_id)]


async def bring(house, session_id, *messages, answer="Fine.", **how):
    house.model.say_text(answer)
    return await run(house, session_id, TurnRequest(messages=messages, **how))


async def test_a_whole_history_is_appended_and_answered(house):
    session_id = await house.new_session()
    history = [
        said(SystemMessage, "Be brief."),
        user("Weather in Oslo and Rome?"),
        asking("c1", "c2"),
        result("c2", "sun"),
        result("c1", "rain"),
        said(AssistantMessage, "Rain, sun."),
        user("And now?"),
    ]
    _, outcome = await bring(house, session_id, *history)
    assert outcome.message.content == "Fine."
    assert await kept(house, session_id) == [
        *((message.role, message.content) for message in history),
        ("assistant", "Fine."),
    ]
    sent = [("system", "Be brief."), *((m.role, m.content) for m in history[1:])]
    sent[3], sent[4] = sent[4], sent[3]  # results in the order of their calls
    assert told(house) == sent


async def test_results_know_the_tool_that_they_are_of(house):
    session_id = await house.new_session()
    await bring(house, session_id, user("Weather?"), asking("c1"), result("c1"))
    assert (await house.messages(session_id))[2].tool_name == "weather"


async def test_a_request_that_is_sent_again_after_a_failure_says_nothing_twice(house):
    session_id = await house.new_session()
    house.model.say(ServiceUnavailable("down"))
    first = [user("Weather?"), asking("c1"), result("c1")]
    turn = await house.turns.start(session_id, TurnRequest(messages=first))
    with pytest.raises(ServiceUnavailable):
        await turn.committed()
    await turn.finished()
    again = [user("Weather?"), asking("c1"), result("c1")]
    await bring(house, session_id, *again)
    roles = [role for role, _ in await kept(house, session_id)]
    assert roles == ["user", "assistant", "tool", "assistant"]
    await bring(house, session_id, user("Weather?"))  # it was answered
    assert [role for role, _ in await kept(house, session_id)][4:] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("messages", "error", "details"),
    [
        ([result("c1")], ValidationFailed, {"field": "messages[0]", "tool_call_id": "c1"}),
        (
            [user("Hi"), asking("c1"), result("c1"), user("Hm"), result("c1")],
            ValidationFailed,
            {"field": "messages[4]", "tool_call_id": "c1"},
        ),
        (
            [asking("c1"), result("c1"), result("c1", "sun")],
            ValidationFailed,
            {"field": "messages[2]", "tool_call_id": "c1"},
        ),
        (
            [user("Hi"), asking("c1", "c2"), result("c2"), user("Hm")],
            MissingToolResult,
            {"field": "messages", "tool_call_id": "c1"},
        ),
        (
            [user("Hi"), asking("c1")],
            MissingToolResult,
            {"field": "messages", "tool_call_id": "c1"},
        ),
    ],
)
async def test_calls_and_results_that_do_not_pair_are_refused_and_nothing_is_saved(
    house, messages, error, details
):
    session_id = await house.new_session()
    with pytest.raises(error) as raised:
        await house.turns.start(session_id, TurnRequest(messages=messages))
    assert raised.value.details == details
    assert await kept(house, session_id) == []
    assert house.model.requests == []


async def test_a_result_that_is_brought_twice_is_said_once(house):
    session_id = await house.new_session()
    await bring(house, session_id, user("Hi"), asking("c1"), result("c1"), result("c1"))
    roles = [role for role, _ in await kept(house, session_id)]
    assert roles == ["user", "assistant", "tool", "assistant"]


async def test_instructions_come_after_the_sessions_prompt_for_one_turn_and_are_not_saved(house):
    session_id = await house.new_session()
    await asyncio.to_thread(house.sessions.set_system_prompt, session_id, "Be brief.")
    await bring(house, session_id, user("Hi"), instructions="Speak French.")
    assert told(house)[0] == ("system", "Be brief.\n\nSpeak French.")
    await bring(house, session_id, user("Hi"))
    assert told(house)[0] == ("system", "Be brief.")
    assert [content for role, content in await kept(house, session_id) if role == "system"] == [
        "Be brief."
    ]


async def test_instructions_come_after_the_models_own_prompt(house):
    house.model.info = msgspec.structs.replace(house.model.info, system_prompt="You are Mo.")
    session_id = await house.new_session()
    await bring(house, session_id, user("Hi"), instructions="Speak French.")
    first = house.model.requests[-1].messages[0]
    assert first.content == "You are Mo.\n\nSpeak French."
    assert first.message_id, "or the profile would add its prompt once more"


async def test_instructions_hold_for_every_round_of_their_turn(house):
    session_id = await house.new_session()
    house.model.say_text("")
    house.model.say_text("Fine.")
    await run(house, session_id, TurnRequest(message="Hi", instructions="Speak French."))
    assert [request.messages[0].content for request in house.model.requests] == [
        "Speak French.",
        "Speak French.",
    ]


async def test_options_of_a_turn_go_over_those_of_its_session(house):
    session_id = await house.new_session()
    await asyncio.to_thread(
        house.sessions.update, session_id, options={"temperature": 1.0, "seed": 7}
    )
    await bring(house, session_id, user("Hi"), options={"temperature": 0, "stop": ["x"]})
    assert house.model.requests[-1].options == {"temperature": 0, "seed": 7, "stop": ["x"]}
    await bring(house, session_id, user("Hi"))
    assert house.model.requests[-1].options == {"temperature": 1.0, "seed": 7}


async def test_settings_that_a_turn_brings_are_the_sessions_from_then_on(house):
    session_id = await house.new_session("m")
    await bring(house, session_id, user("Hi"), settings={"model": "n", "options": {"seed": 7}})
    asked = house.model.requests[-1]
    assert (asked.model, asked.options) == ("n", {"seed": 7})
    session = await asyncio.to_thread(house.sessions.get, session_id)
    assert (session.metadata.model, session.metadata.options) == ("n", {"seed": 7})
    assert session.messages[-1].model == "n"


async def test_settings_of_a_turn_that_is_refused_are_not_kept(house):
    session_id = await house.new_session("m")
    request = TurnRequest(messages=[user("Hi")], settings={"model": "missing"})
    with pytest.raises(ModelNotFound):
        await house.turns.start(session_id, request)
    session = await asyncio.to_thread(house.sessions.get, session_id)
    assert (session.metadata.model, session.messages) == ("m", ())


@pytest.fixture
def service(house):
    return ChatService(
        saved=house.space, ephemeral=house.space, keys=house.keys, default_model=house.default_model
    )


async def opened(service, request):
    turn = await service.open(request)
    await turn.finished()
    return turn


async def test_a_new_session_is_made_with_its_settings_and_messages(house, service):
    new = make_session("0000000001", "m", now=utc_now(), options={"seed": 7})
    new = append_messages(new, user("Hi"), said(AssistantMessage, "Ho"), now=utc_now())
    house.model.say_text("Fine.")
    turn = await opened(
        service, ChatRequest(turn=TurnRequest(messages=[user("And now?")]), new=new)
    )
    assert turn.session_id == "0000000001"
    assert [content for _, content in await kept(house, turn.session_id)] == [
        *("Hi", "Ho", "And now?", "Fine.")
    ]
    assert house.model.requests[0].options == {"seed": 7}


async def test_a_new_session_gets_another_id_if_its_own_is_taken(house, service):
    taken = await house.new_session()
    new = make_session(taken, "m", now=utc_now(), options={"seed": 7})
    house.model.say_text("Fine.")
    turn = await opened(service, ChatRequest(turn=TurnRequest(messages=[user("Hi")]), new=new))
    assert turn.session_id != taken
    made = await asyncio.to_thread(house.sessions.get, turn.session_id)
    assert (made.metadata.session_id, made.metadata.options) == (turn.session_id, {"seed": 7})
    assert await kept(house, taken) == []


async def test_a_new_session_whose_id_was_asked_for_gets_no_other(house, service):
    taken = await house.new_session()
    new = make_session(taken, "m", now=utc_now())
    request = ChatRequest(turn=TurnRequest(messages=[user("Hi")]), session_id=taken, new=new)
    with pytest.raises(SessionExists):
        await service.open(request)
    assert await kept(house, taken) == []


async def test_a_new_session_that_has_nothing_to_answer_is_not_made(house, service):
    new = make_session("0000000001", "m", now=utc_now())
    with pytest.raises(NothingToContinue):
        await service.open(ChatRequest(turn=TurnRequest(), new=new))
    assert list((await asyncio.to_thread(house.sessions.list)).sessions) == []


async def test_messages_are_enough_for_a_new_session(house, service):
    house.model.say_text("Fine.")
    request = ChatRequest(turn=TurnRequest(messages=[user("Hi")]), model="m")
    turn = await opened(service, request)
    assert [content for _, content in await kept(house, turn.session_id)] == ["Hi", "Fine."]


async def test_a_turn_is_announced_before_anything_of_it_is_saved(house, service):
    announced = []

    def note(session_id, turn_id):
        claim = house.sessions.repository.claim_of(session_id)
        announced.append((session_id, turn_id, claim))

    request = ChatRequest(turn=TurnRequest(messages=[user("Hi")]), model="m")
    for key in (None, "key"):
        house.model.say_text("Ho")
        turn = await service.open(request, key, announce=note)
        await turn.finished()
        assert announced.pop() == (turn.session_id, turn.turn_id, None)
