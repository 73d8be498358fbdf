"""What a conversation refuses over real sockets, and that it leaves nothing behind."""

import pytest

from tests.functional.conftest import names_of


def test_thinking_is_refused_by_a_model_that_can_not(chat):
    session_id = chat.new_session(model="scripted-plain")
    answer = chat.http.post(f"/chat/{session_id}", json={"message": "x", "think": True})
    assert answer.status_code == 422
    assert answer.json()["error"]["details"]["field"] == "think"
    assert chat.messages(session_id) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"message": ""}, "message"),
        ({"message": " \n "}, "message"),
        ({"message": 3}, "message"),
        ({"message": "x", "think": "very"}, "think"),
        ({"message": "x", "detached": "yes"}, "detached"),
        ({"message": "x", "selected_tools": "add"}, "selected_tools"),
        ({"mesage": "x"}, "mesage"),
    ],
)
def test_a_bad_body_is_explained_and_leaves_nothing(chat, body, field):
    session_id = chat.new_session()
    for path in (f"/chat/{session_id}", f"/chat/{session_id}/stream"):
        answer = chat.http.post(path, json=body)
        assert answer.status_code == 422
        error = answer.json()["error"]
        assert error["code"] == "VALIDATION_ERROR"
        assert error["details"]["field"] == field
    assert chat.messages(session_id) == []


def test_a_client_may_send_null_for_what_it_leaves_out(chat, script):
    nulls = dict.fromkeys(["attachments", "think", "selected_tools", "detached"])
    session_id = chat.new_session()
    answer = chat.http.post(f"/chat/{session_id}", json={"message": script("kept"), **nulls})
    assert answer.status_code == 200, answer.text
    assert answer.json()["message"]["content"] == "kept"
    assert names_of(chat.say(session_id, script("kept"), **nulls))[-1] == "done"


def test_a_misspelt_field_never_costs_an_answer(chat, script):
    session_id = chat.new_session()
    chat.say(session_id, script("kept"))
    answer = chat.http.post(f"/chat/{session_id}", json={"mesage": "second"})
    assert answer.status_code == 422
    assert "check the spelling" in answer.json()["error"]["message"]
    assert chat.messages(session_id)[-1]["content"] == "kept"


def test_nothing_to_continue_from_is_told(chat):
    session_id = chat.new_session()
    answer = chat.http.post(f"/chat/{session_id}/stream", json={})
    assert answer.status_code == 422
    assert "send a message" in answer.json()["error"]["message"]


@pytest.mark.parametrize("session_id", ["0123456789", "nope", "..%2f..%2fetc", "ABCDEF0123"])
def test_an_unknown_session_is_404_on_every_chat_route(chat, session_id):
    for method, path in [
        ("POST", f"/chat/{session_id}"),
        ("POST", f"/chat/{session_id}/stream"),
        ("POST", f"/chat/{session_id}/cancel"),
        ("GET", f"/chat/{session_id}/stream"),
        ("GET", f"/sessions/{session_id}/status"),
    ]:
        answer = chat.http.request(
            method, path, json={"message": "x"} if method == "POST" else None
        )
        assert answer.status_code == 404, (method, path, answer.text)
        assert answer.json()["error"]["code"] in {"SESSION_NOT_FOUND", "NOT_FOUND"}


def test_an_unknown_model_is_told_and_the_message_is_not_lost_halfway(chat):
    answer = chat.http.post("/chat", json={"model": "nope", "message": "x"})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "MODEL_NOT_FOUND"


def test_a_refusal_before_the_first_byte_is_a_plain_error(chat, script):
    session_id = chat.new_session()
    answer = chat.http.post(f"/chat/{session_id}/stream", json={"message": script("x", status=400)})
    assert answer.status_code == 502
    error = answer.json()["error"]
    assert error["code"] == "OLLAMA_ERROR"
    assert error["details"]["retryable"] is False
    assert error["details"]["session_id"] == session_id
    assert error["details"]["message_saved"] is True
    assert [message["role"] for message in chat.messages(session_id)] == ["user"]


def test_a_busy_session_refuses_turns_edits_and_deletion(chat, script):
    session_id = chat.new_session()
    with chat.stream(
        session_id, message=script(["a", "b"], stall_after=1, stall_seconds=30)
    ) as events:
        while next(events).name != "content_delta":
            pass
        for method, path, body in [
            ("POST", f"/chat/{session_id}", {"message": "x"}),
            ("PUT", f"/sessions/{session_id}/messages/0", {"content": "x"}),
            ("PUT", f"/sessions/{session_id}/messages/1/variant", {"message_id": "x"}),
            ("PUT", f"/sessions/{session_id}/system-prompt", {"content": "x"}),
            ("DELETE", f"/sessions/{session_id}", None),
        ]:
            answer = chat.http.request(method, path, json=body)
            assert answer.status_code == 409, (method, path)
            assert answer.json()["error"]["code"] == "SESSION_BUSY"
            assert int(answer.headers["retry-after"]) > 0
        status = chat.http.get(f"/sessions/{session_id}/status").json()
        assert status["active_turn"]["state"] == "generating"
        assert chat.http.patch(f"/sessions/{session_id}", json={"options": {"seed": 1}}).is_success
        assert chat.cancel(session_id).status_code == 200
    assert chat.http.get(f"/sessions/{session_id}/status").json()["active_turn"] is None


@pytest.mark.parametrize("path", ["/chat", "/chat/stream"])
def test_another_model_than_the_sessions_is_refused_with_what_to_do(chat, script, path):
    session_id = chat.new_session()
    body = {"session_id": session_id, "message": script("Hello.")}

    refused = chat.http.post(path, json={**body, "model": "scripted-plain:latest"})

    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (422, "VALIDATION_ERROR")
    assert error["details"]["field"] == "model"
    assert f"PATCH /api/v1/sessions/{session_id}" in error["message"]
    assert chat.messages(session_id) == []
    for same in ("qwen3:14b", "ollama:qwen3:14b"):
        assert chat.http.post(path, json={**body, "model": same}).status_code == 200
    unknown = {**body, "session_id": "0123456789", "model": "qwen3:14b"}
    assert chat.http.post(path, json=unknown).status_code == 404
