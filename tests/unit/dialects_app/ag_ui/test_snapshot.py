"""The messages of a session as a client of AG-UI gets them, before a turn and at rest."""

import json

from ag_ui.core import Message as AgUiMessage
from hypothesis import given
from pydantic import TypeAdapter

from chat.stream.encoding import ascii_json
from dialects_app.ag_ui.snapshot import before_turn, resumed_by, shown_messages
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    mark_cancelled,
    mark_changed,
)
from tests.unit.sessions_app.format.sessions import sessions

NOW = "2026-01-02T03:04:05.000000+00:00"
CAT = Attachment(id="sha256:00", name="cat.png", media_type="image/png", size=3)

_messages = TypeAdapter(list[AgUiMessage])


def person(name, turn="t1", **fields):
    return UserMessage(content="Hi", message_id=name, timestamp=NOW, turn_id=turn, **fields)


def answer(name, *calls, turn="t1", **fields):
    given = {"content": "Hello", "message_id": name, "timestamp": NOW, "turn_id": turn}
    return AssistantMessage(**{**given, "tool_calls": calls, **fields})


def result(call_id, turn="t1", **fields):
    return ToolMessage(
        **{"content": "3", "message_id": f"r-{call_id}", "timestamp": NOW, **fields},
        turn_id=turn,
        tool_call_id=call_id,
    )


def call(call_id, name="add", *, client_side=False, **arguments):
    return ToolCall(id=call_id, name=name, arguments=arguments, client_side=client_side)


def ids(messages):
    return [message["id"] for message in messages]


@given(sessions)
def test_every_session_makes_messages_that_the_protocol_takes(session):
    shown = json.loads(ascii_json(shown_messages(session.messages)))
    _messages.validate_python(shown)


def test_messages_have_the_ids_that_they_are_streamed_with():
    messages = (
        SystemMessage(content="Be brief.", message_id="s", timestamp=NOW),
        person("u1"),
        answer("a1", call("c1", a=1), thinking="Hm"),
        result("c1"),
        answer("a2", model="small:1b"),
    )
    shown = shown_messages(messages)
    assert ids(shown) == ["u1", "reasoning-a1", "a1", "result-c1", "a2"]
    [asked] = shown[2]["toolCalls"]
    assert asked["function"] == {"name": "add", "arguments": '{"a":1}'}
    assert (shown[3]["toolCallId"], shown[3]["content"]) == ("c1", "3")
    assert shown[4]["metadata"] == {"model": "small:1b", "turnId": "t1"}


def test_calls_of_agents_have_the_names_of_agents():
    asking = answer("a1", call("c1", "agent", agent="scribe", instruction="Note it."))
    [shown] = shown_messages((asking,))
    assert shown["toolCalls"][0]["function"] == {
        "name": "scribe",
        "arguments": '{"instruction":"Note it."}',
    }


def test_a_call_that_a_person_changed_shows_what_it_ran_with():
    ran_with = {"a": 5}
    told = result("c1", content=mark_changed("6", ran_with), arguments=ran_with)
    asked, returned = shown_messages((answer("a1", call("c1", a=1)), told))
    assert asked["toolCalls"][0]["function"]["arguments"] == '{"a":5}'
    assert returned["content"] == "6"


def test_answers_that_were_stopped_say_so():
    cut = answer("a1", content=mark_cancelled("One"), cancelled=True)
    [shown] = shown_messages((cut,))
    assert (shown["content"], shown["metadata"]["cancelled"]) == ("One", True)


def test_images_are_shown_by_their_ids():
    [shown] = shown_messages((person("u1", attachments=(CAT,)),))
    text, image = shown["content"]
    assert text == {"type": "text", "text": "Hi"}
    assert (image["type"], image["source"]["value"]) == ("image", "sha256:00")


def test_before_a_turn_is_what_was_said_to_begin_it():
    messages = (person("u1"), answer("a1"), person("u2", "t2"), answer("a2", turn="t2"))
    assert before_turn(messages, "t2") == list(messages[:3])


def test_results_of_the_client_come_before_the_turn_that_they_begin():
    ours, theirs = call("c1"), call("c2", client_side=True)
    messages = (
        person("u1"),
        answer("a1", ours, theirs),
        result("c1"),
        result("c2", "t2"),
        answer("a2", turn="t2"),
    )
    assert before_turn(messages, "t2") == list(messages[:4])


def test_results_of_resumed_calls_belong_to_the_turn_that_runs_them():
    messages = (person("u1"), answer("a1", call("c1")), result("c1", "t2"))
    assert before_turn(messages, "t2") == list(messages[:2])
    resumed = resumed_by(messages, "t2")
    assert (resumed.asking_id, set(resumed.calls), resumed.known) == ("a1", {"c1"}, {"c1"})
    assert resumed_by(messages[:2], "", client_calls=frozenset({"x"})).known == frozenset()
    assert resumed_by((person("u1"), answer("a1")), "t2").calls == {}


def test_an_answer_that_is_made_again_is_not_before_its_turn():
    messages = (person("u1"), answer("a1"))
    assert before_turn(messages, "t2") == list(messages[:1])
    assert before_turn((*messages[:1], answer("a2", turn="t2")), "t2") == list(messages[:1])
