"""Sessions, keys and clients that leave, in chat completions."""

from typing import Any

import httpx
import openai
import pytest

from mochi_server.testing import MODEL, Reply, ToolCall
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.completions import (
    HELLO,
    complete,
    messages,
    saved,
    wait_for_answer,
    with_headers,
)


def test_a_stored_completion_is_a_session_that_can_be_continued(scripted, client):
    scripted.script("Hi!", "Fine.")
    system: Any = {"role": "system", "content": "Be kind."}
    first, headers = with_headers(client, system, HELLO, store=True, metadata={"topic": "manners"})
    session_id = headers["x-mochi-session-id"]
    answer: Any = {"role": "assistant", "content": first.choices[0].message.content}
    question: Any = {"role": "user", "content": "How are you?"}
    _, headers = with_headers(
        client, system, HELLO, answer, question, extra_headers={"X-Mochi-Session-Id": session_id}
    )
    assert headers["x-mochi-session-id"] == session_id
    assert [(each["role"], each["content"]) for each in messages(scripted, session_id)] == [
        ("system", "Be kind."),
        ("user", "Hello!"),
        ("assistant", "Hi!"),
        ("user", "How are you?"),
        ("assistant", "Fine."),
    ]


def test_a_session_is_answered_by_its_own_model_alone(scripted, client):
    _, headers = with_headers(client, store=True)
    named = {"X-Mochi-Session-Id": headers["x-mochi-session-id"]}
    with pytest.raises(openai.BadRequestError) as raised:
        complete(client, model="scripted-plain:latest", extra_headers=named)
    assert raised.value.param == "model"
    with pytest.raises(openai.NotFoundError):
        complete(client, extra_headers={"X-Mochi-Session-Id": "0123456789"})


def test_the_same_key_gets_the_same_completion(scripted, client):
    scripted.script("first", "second")
    key = {"Idempotency-Key": "once"}
    first = complete(client, extra_headers=key)
    again = complete(client, extra_headers=key)
    assert first.model_dump() == again.model_dump()
    streamed = list(complete(client, stream=True, extra_headers=key))
    assert {chunk.id for chunk in streamed} == {first.id}
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == "first"
    with pytest.raises(openai.BadRequestError) as raised:
        complete(client, {"role": "user", "content": "Other"}, extra_headers=key)
    assert raised.value.param == "Idempotency-Key"


def test_a_stream_is_the_same_live_late_and_afterwards(scripted, client):
    scripted.script(
        Reply(["Let", " me see."], tool_calls=[ToolCall("add", {"a": 1, "b": 2})]),
        Reply(["Thr", "ee."], reasoning=["Hm", "."], stall_seconds=0.2, stall_after=1),
    )
    asked = {
        "url": f"{scripted.url}/v1/chat/completions",
        "json": {
            "model": MODEL,
            "messages": [HELLO],
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        "headers": {"X-Mochi-Tools": "add", "Idempotency-Key": "same"},
    }
    with httpx.Client(trust_env=False, verify=NO_TLS, timeout=30) as http:
        with http.stream("POST", **asked) as live:
            pieces = live.iter_bytes()
            first = next(pieces)
            late = http.post(**asked).content
            told = first + b"".join(pieces)
        afterwards = http.post(**asked).content
    assert told == late == afterwards
    assert told.endswith(b"data: [DONE]\n\n")
    assert b"Thr" in told


def test_who_leaves_an_attached_completion_stops_the_model(scripted, client):
    _, headers = with_headers(client, store=True)
    session_id = headers["x-mochi-session-id"]
    scripted.script(Reply(["Hel", "lo!"], stall_seconds=300, stall_after=1))
    stream = complete(client, stream=True, extra_headers={"X-Mochi-Session-Id": session_id})
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    assert wait_for_answer(scripted, session_id)["cancelled"]


def test_a_stored_completion_goes_on_when_its_client_leaves(scripted, client):
    scripted.script(Reply(["Hel", "lo!"], stall_seconds=0.2, stall_after=1))
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=[HELLO], stream=True, store=True
    )
    stream = raw.parse()
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    answer = wait_for_answer(scripted, raw.headers["x-mochi-session-id"])
    assert answer["content"] == "Hello!"


def test_a_chat_of_open_webui_has_no_session_unless_a_setting_says_so(scripted, client):
    before = saved(scripted)
    _, headers = with_headers(client, extra_headers={"X-OpenWebUI-Chat-Id": "c1"})
    assert "x-mochi-session-id" not in headers
    assert saved(scripted) == before


def test_a_chat_of_open_webui_can_have_a_session(serve_once, connect):
    chat = {"X-OpenWebUI-Chat-Id": "0f4c"}
    scripted = serve_once(MOCHI_OPENWEBUI_SESSIONS="true")
    client = connect(scripted)
    scripted.script("Hi!", "A title", "Fine.")

    def say(*said: Any, **fields: Any) -> str | None:
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=list(said), extra_headers=chat, **fields
        )
        answer = raw.parse()
        if fields.get("stream"):
            list(answer)
        return raw.headers.get("x-mochi-session-id")

    first = say(HELLO, stream=True)
    title = say({"role": "user", "content": "Make a title."})
    question = {"role": "user", "content": "How are you?"}
    second = say(HELLO, {"role": "assistant", "content": "Hi!"}, question, stream=True)
    assert first == second
    assert title is None
    assert [each["content"] for each in messages(scripted, first or "")] == [
        "Hello!",
        "Hi!",
        "How are you?",
        "Fine.",
    ]


def test_a_chat_of_open_webui_goes_on_without_the_branch_that_was_removed(serve_once, connect):
    scripted = serve_once(MOCHI_OPENWEBUI_SESSIONS="true")
    client = connect(scripted)

    def say(*said: str, chat: str = "17c0") -> str:
        """Send user and assistant by turns; return the session that answered."""
        sent: Any = [
            {"role": "assistant" if index % 2 else "user", "content": text}
            for index, text in enumerate(said)
        ]
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=sent, stream=True, extra_headers={"X-OpenWebUI-Chat-Id": chat}
        )
        list(raw.parse())
        asked = scripted.model_requests[-1]["messages"]
        assert [each["content"] for each in asked] == list(said)
        return raw.headers["x-mochi-session-id"]

    def in_session(session_id: str) -> list[str]:
        return [each["content"] for each in messages(scripted, session_id)]

    scripted.script("a1", "a2", "a2 again", "b2", "a3", "a2 edited", "c1", "b3", "d1")
    first = say("u1")
    assert say("u1", "a1", "u2") == first
    again = say("u1", "a1", "u2")  # made again: the answer is not the client's any more
    assert again != first
    assert in_session(again) == ["u1", "a1", "u2", "a2 again"]
    edited = say("u1", "a1", "v2")  # edited
    assert in_session(edited) == ["u1", "a1", "v2", "b2"]
    assert say("u1", "a1", "u2", "a2 again", "u3") == again  # back to the other branch
    assert in_session(first) == ["u1", "a1", "u2", "a2"]
    corrected = say("u1", "A1!", "u2")  # the answer was edited
    assert in_session(corrected) == ["u1", "A1!", "u2", "a2 edited"]
    assert in_session(say("v1")) == ["v1", "c1"]  # the first message was edited
    assert say("u1", "a1", "v2", "b2", "v3") == edited
    assert len({first, again, edited, corrected}) == 4
    assert say("u1", chat="other") not in {first, again, edited, corrected}


def test_a_session_that_is_named_goes_on_in_a_copy_where_the_histories_part(scripted, client):
    scripted.script("a1", "a2", "a2 again")
    user: Any = [{"role": "user", "content": text} for text in ("u1", "u2")]
    answer: Any = {"role": "assistant", "content": "a1"}
    _, headers = with_headers(client, user[0], store=True)
    named = {"X-Mochi-Session-Id": headers["x-mochi-session-id"]}
    complete(client, user[0], answer, user[1], extra_headers=named)
    key = {"Idempotency-Key": "again"}
    _, copy = with_headers(client, user[0], answer, user[1], extra_headers={**named, **key})
    assert copy["x-mochi-session-id"] != named["X-Mochi-Session-Id"]
    said = [each["content"] for each in messages(scripted, copy["x-mochi-session-id"])]
    assert said == ["u1", "a1", "u2", "a2 again"]
    _, same = with_headers(client, user[0], answer, user[1], extra_headers={**named, **key})
    assert same["x-mochi-session-id"] == copy["x-mochi-session-id"]
    _, own = with_headers(client, {"role": "user", "content": "u3"}, extra_headers=named)
    assert own["x-mochi-session-id"] == named["X-Mochi-Session-Id"]
