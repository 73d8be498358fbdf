"""Which chat requests are the same to an ``Idempotency-Key``."""

import msgspec
import pytest

from chat.approvals.confirmation import Decision
from chat.service import ChatRequest
from chat.start.fingerprint import fingerprint_of_request
from chat.start.turn_request import TurnRequest
from sessions_app.edits import Rewind
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    SystemMessage,
    ToolCall,
    ToolSpec,
    UserMessage,
)
from sessions_app.session import append_messages, make_session

HELLO = TurnRequest(message="Hello!")


def fingerprint(request):
    return fingerprint_of_request(**msgspec.structs.asdict(request))


def of_turn(turn):
    return fingerprint(ChatRequest(turn=turn, model="m"))


def said(content, message_id="a", timestamp="1", kind=UserMessage, **how):
    return kind(content=content, message_id=message_id, timestamp=timestamp, **how)


def new_session(session_id="0000000001", now="1", prompt="Be brief.", **settings):
    session = make_session(session_id, "m", now=now, **settings)
    return append_messages(session, said(prompt, session_id, now, kind=SystemMessage), now=now)


def test_requests_that_an_earlier_server_took_keep_its_fingerprint():
    full = TurnRequest(message="Hello!", think="low", selected_tools=["add"], detached=True)
    assert fingerprint(ChatRequest(turn=full, session_id="0123456789")) == (
        "643aad2138af86b220eab17d9b35b91b26cb94ec1d7da9357e539cbd46cf7118"
    )
    assert of_turn(HELLO) == "27409bb517042d88e09f21da4d690f1f3abd392299e63942f2440fe1ac4f1a7f"


OTHER_VALUES = {
    "message": "Bye!",
    "message_id": "b",
    "attachments": (Attachment(id="sha256:1", name="a.png", media_type="image/png", size=1),),
    "think": True,
    "selected_tools": ["add"],
    "detached": True,
    "approvals": "deny",
    "messages": [said("Hello!")],
    "instructions": "Be brief.",
    "client_tools": [ToolSpec(name="add", description="Adds.", parameters={})],
    "tool_choice": "required",
    "options": {"temperature": 0},
    "answer_schema": {"type": "object"},
    "requires_fit": True,
    "settings": {"model": "other"},
    "rewind": Rewind(message_id="a", content="Hello?"),
    "decisions": [Decision(confirmation_id="conf_a", approved=False)],
    "expects": "b",
    "dialect": "responses",
    "on_crash": "continue",
    "keyed": True,
    "key_id": "k3f9a2b1c",
    "models": ("qwen3:*",),
}


@pytest.mark.parametrize("name", TurnRequest.__struct_fields__)
def test_every_field_of_a_turn_makes_another_request_of_it(name):
    assert of_turn(msgspec.structs.replace(HELLO, **{name: OTHER_VALUES[name]})) != of_turn(HELLO)


OTHER_REQUESTS = {
    "turn": msgspec.structs.replace(HELLO, message="Bye!"),
    "session_id": "0123456789",
    "model": "other",
    "new": new_session(),
    "ephemeral": True,
    "keep": True,
}


@pytest.mark.parametrize("name", ChatRequest.__struct_fields__)
def test_every_field_of_a_chat_makes_another_request_of_it(name):
    plain = ChatRequest(turn=HELLO, model="m")
    other = msgspec.structs.replace(plain, **{name: OTHER_REQUESTS[name]})
    assert fingerprint(other) != fingerprint(plain)


def test_whether_it_is_asked_for_as_a_stream_makes_no_other_request_of_it():
    assert of_turn(msgspec.structs.replace(HELLO, approvals="suspend")) == of_turn(HELLO)


def test_ids_and_times_that_were_made_for_a_request_do_not_count():
    def asked(stamp):
        calls = [ToolCall(id="c1", name="add", arguments={"a": stamp[:0]})]
        answer = said("", stamp, stamp, kind=AssistantMessage, tool_calls=calls)
        turn = TurnRequest(messages=[said("Hello!", stamp, stamp), answer])
        return ChatRequest(turn=turn, new=new_session(stamp * 10, stamp))

    assert fingerprint(asked("1")) == fingerprint(asked("2"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (new_session(), new_session(prompt="Be long.")),
        (new_session(), new_session(options={"seed": 1})),
    ],
)
def test_the_settings_of_a_new_session_count(one, other):
    first, second = (ChatRequest(turn=HELLO, new=session) for session in (one, other))
    assert fingerprint(first) != fingerprint(second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (said("Hello!"), said("Bye!")),
        (said("Hello!"), said("Hello!", kind=SystemMessage)),
    ],
)
def test_what_messages_say_counts_and_who_says_it(one, other):
    assert of_turn(TurnRequest(messages=[one])) != of_turn(TurnRequest(messages=[other]))
