"""Messages that are edited, or answered again, by the request that asks for the answer."""

import pytest

from tests.functional.conftest import block, text_of


def contents(chat, session_id):
    return [message["content"] for message in chat.messages(session_id)]


@pytest.fixture
def talk(chat, script):
    """Return a session with two questions and answers, and the ids of its messages."""
    session_id = chat.new_session()
    chat.say(session_id, script("First."))
    chat.say(session_id, script("Second."))
    return session_id, [message["message_id"] for message in chat.messages(session_id)]


def test_an_edit_is_answered_in_one_request(chat, talk, script):
    session_id, [first, *_] = talk
    events = chat.say(session_id, script("Anew."), message_id=first)
    assert text_of(events) == "Anew."
    assert events[0].data["user_message_id"] == first
    assert contents(chat, session_id) == [script("Anew."), "Anew."]


def test_an_edit_keeps_attachments_unless_it_names_others(chat, script):
    session_id = chat.new_session()
    file = {"data": "SGVsbG8h", "name": "hello.txt"}
    chat.say(session_id, script("First."), attachments=[file])
    [asked, _] = chat.messages(session_id)
    body = {"message": script("Anew."), "message_id": asked["message_id"]}
    chat.http.post(f"/chat/{session_id}", json=body).raise_for_status()
    assert chat.messages(session_id)[0]["attachments"] == asked["attachments"]
    body["attachments"] = []
    chat.http.post(f"/chat/{session_id}", json=body).raise_for_status()
    assert "attachments" not in chat.messages(session_id)[0]


def test_an_edit_may_leave_nothing_but_other_attachments(chat, talk):
    """They are what is answered, not the old text again."""
    session_id, [first, *_] = talk
    file = {"data": "SGVsbG8h", "name": "hello.txt"}
    body = {"message_id": first, "attachments": [file]}
    chat.http.post(f"/chat/{session_id}", json=body).raise_for_status()
    [asked, _] = chat.messages(session_id)
    assert (asked["content"], [each["name"] for each in asked["attachments"]]) == (
        "",
        ["hello.txt"],
    )


@pytest.mark.parametrize("place", [0, 1])
def test_an_earlier_question_is_answered_again_by_its_id_or_its_answers(chat, talk, place):
    session_id, ids = talk
    events = chat.say(session_id, message_id=ids[place])
    assert events[0].data["user_message_id"] == ids[0]
    [_, answer] = chat.messages(session_id)
    assert (answer["content"], answer["variant_count"]) == ("First.", 1)


@pytest.mark.parametrize(
    "body",
    [{"message": "Other", "selected_tools": ["nothing"]}, {"message": block(status=400)}],
    ids=["before it begins", "by the model"],
)
def test_nothing_is_lost_by_an_edit_that_is_refused(chat, talk, body):
    session_id, [first, *_] = talk
    before = chat.messages(session_id)
    answer = chat.http.post(f"/chat/{session_id}/stream", json={**body, "message_id": first})
    assert answer.status_code >= 400
    assert chat.messages(session_id) == before


@pytest.mark.parametrize(
    ("place", "body", "status", "code"),
    [
        (None, {"message": "x"}, 409, "MESSAGE_CHANGED"),
        (1, {"message": "x"}, 400, "INVALID_MESSAGE_INDEX"),
        (0, {"message": " "}, 422, "VALIDATION_ERROR"),
    ],
)
def test_a_message_that_can_not_be_edited_is_named(chat, talk, place, body, status, code):
    session_id, ids = talk
    before = chat.messages(session_id)
    body |= {"message_id": "ffffffffff" if place is None else ids[place]}
    answer = chat.http.post(f"/chat/{session_id}", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert chat.messages(session_id) == before


def test_a_message_needs_its_session(chat, talk):
    answer = chat.http.post("/chat", json={"message": "x", "message_id": talk[1][0]})
    assert answer.json()["error"]["details"]["field"] == "message_id"


def test_an_edit_with_a_key_is_made_once(chat, talk, script):
    session_id, [first, _, second, _] = talk
    body = {"message": script("Anew."), "message_id": second}
    headers = {"Idempotency-Key": f"edit-{session_id}"}
    answers = [
        chat.http.post(f"/chat/{session_id}", json=body, headers=headers).json() for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert len(chat.messages(session_id)) == 4
    other = {**body, "message_id": first}
    answer = chat.http.post(f"/chat/{session_id}", json=other, headers=headers)
    assert answer.json()["error"]["code"] == "VALIDATION_ERROR"
    assert len(chat.messages(session_id)) == 4


def test_an_edit_beside_a_running_turn_is_refused(chat, talk, script):
    session_id, [first, *_] = talk
    with chat.stream(
        session_id, message=script("Long.", stall_seconds=60), detached=True
    ) as events:
        next(events)
        answer = chat.http.post(f"/chat/{session_id}", json={"message": "x", "message_id": first})
        assert answer.json()["error"]["code"] == "SESSION_BUSY"
        chat.cancel(session_id).raise_for_status()
