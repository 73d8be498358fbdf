"""Models of every provider over HTTP, through the vendors' real clients, in test mode."""

import pytest

from tests.functional.chat.conftest import VENDOR_MODELS
from tests.functional.conftest import text_of

PROVIDERS = ["ollama", "openai", "anthropic", "google", "openrouter", "mine"]
LOCAL = "http://127.0.0.1:9/v1"  # test mode takes its place too


@pytest.fixture(scope="module")
def server(start_once):
    return start_once(MOCHI_PROVIDERS__MINE__BASE_URL=LOCAL)


def asks(*tools):
    return {"tool_call": [{"name": name, "args": args} for name, args in tools]}


def test_every_provider_has_its_models_in_the_list_and_its_name_in_health(chat):
    listed = chat.http.get("/models").json()

    assert listed["unavailable"] == []
    assert list(dict.fromkeys(model["provider"] for model in listed["models"])) == PROVIDERS
    assert chat.http.get("/health").json()["providers"] == PROVIDERS
    for model in VENDOR_MODELS:
        shown = chat.http.get(f"/models/{model}").json()
        assert shown["name"] == model
        assert shown["provider"] == model.partition(":")[0]


@pytest.mark.parametrize("model", VENDOR_MODELS)
def test_an_answer_has_its_final_text_and_thinking(chat, script, model):
    session_id = chat.new_session(model=model)
    says = {"text_message": {"text": ["Gr", "üße␄ "], "reasoning": ["I ", "see"]}}

    events = chat.say(session_id, script(says), think=True)

    complete = events[-2].data
    assert events[-2].name == "message_complete"
    assert (complete["content"], complete["thinking"]) == ("Grüße", "I see")
    assert text_of(events) == "Grüße"
    assert text_of(events, "thinking_delta") == "I see"
    assert complete["model"] == model
    assert complete["usage"]["prompt_tokens"] > 0
    saved = chat.messages(session_id)[-1]
    assert (saved["content"], saved["thinking"]) == ("Grüße", "I see")


def test_the_window_of_other_providers_is_their_models_own(chat, script):
    session_id = chat.new_session(model="anthropic:claude-haiku-4-5")

    complete = chat.say(session_id, script("Hello."))[-2].data

    assert complete["context_window"]["current_window"] is None
    status = chat.http.get(f"/sessions/{session_id}/status").json()["context_window"]
    assert (status["current_window"], status["dynamic_enabled"]) == (None, False)
    assert chat.http.get(f"/sessions/{session_id}/context").json()["window"] is None


def test_one_conversation_goes_through_every_provider_with_its_calls(chat, script):
    session_id = chat.new_session(model="qwen3:14b", system_prompt="Be brief.")

    for turn, model in enumerate([*VENDOR_MODELS, "qwen3:14b"]):
        answer = chat.http.patch(f"/sessions/{session_id}", json={"model": model})
        assert answer.status_code == 200, answer.text
        message = script(asks(("nope", {"turn": turn})), f"Answer {turn}.", per_request=True)
        events = chat.say(session_id, message, think=True)
        assert events[-2].name == "message_complete", events[-2]
        assert events[-2].data["content"] == f"Answer {turn}."

    saved = chat.messages(session_id)
    calls = [call for message in saved for call in message.get("tool_calls") or []]
    assert [call["function"]["arguments"]["turn"] for call in calls] == list(
        range(len(VENDOR_MODELS) + 1)
    )


@pytest.mark.parametrize("model", VENDOR_MODELS)
def test_a_refusal_before_the_first_byte_is_an_http_error(chat, script, model):
    session_id = chat.new_session(model=model)

    answer = chat.http.post(f"/chat/{session_id}/stream", json={"message": script(status=401)})

    assert answer.status_code == 502
    error = answer.json()["error"]
    assert error["code"] == "UNAUTHORIZED"
    assert error["details"]["provider"] == model.partition(":")[0]
    assert error["details"]["retryable"] is False
    # The user's message stays, so that it can be tried again.
    assert [message["role"] for message in chat.messages(session_id)] == ["user"]


@pytest.mark.parametrize("model", VENDOR_MODELS)
def test_an_error_in_mid_answer_says_whether_to_try_again(chat, script, model):
    session_id = chat.new_session(model=model)

    events = chat.say(session_id, script(["one ", "two ", "three"], error_line=2))

    assert [event.name for event in events][-2:] == ["error", "done"]
    assert events[-2].data["code"] == "SERVICE_UNAVAILABLE"
    assert events[-2].data["details"]["retryable"] is True
    assert chat.messages(session_id)[-1]["content"] == "one two"


@pytest.mark.parametrize("model", VENDOR_MODELS)
def test_cancelling_gives_what_there_was_and_stops_the_provider(chat, script, model):
    session_id = chat.new_session(model=model)
    message = script(["one ", "two ", "three"], stall_seconds=60, stall_after=2)

    with chat.stream(session_id, message=message, detached=True) as events:
        while text_of([next(events)]) != " two":
            pass
        answer = chat.cancel(session_id)
        rest = list(events)

    assert answer.json()["partial_content"] == "one two"
    assert answer.json()["stopped"]["upstream"] is True
    assert [event.name for event in rest] == ["cancelled", "done"]
    assert chat.messages(session_id)[-1]["content"] == "one two\n\n[cancelled]"


def test_a_key_that_is_missing_is_named(start):
    chat = start(MOCHI_OLLAMA_HOST="http://127.0.0.1:9").chat()

    session_id = chat.new_session(model="openai:gpt-5.1")
    answer = chat.http.post(f"/chat/{session_id}/stream", json={"message": "Hello"})

    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "UNAUTHORIZED"
    assert "OPENAI_API_KEY" in answer.json()["error"]["message"]
