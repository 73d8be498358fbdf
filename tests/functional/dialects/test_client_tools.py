"""Calls that clients run, seen from both sides: OpenAI's protocol asks, our own API shows."""

import base64
from typing import Any

import openai
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.conftest import Chat
from tests.unit.sessions_app.attachments.images import png

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
PLAIN = "scripted-plain:latest"
HELLO: Any = {"role": "user", "content": "Weather in Oslo?"}


IMAGE = base64.b64encode(png(3, 2)).decode()
PICTURE: Any = [{"type": "image", "source": {"type": "data", "value": IMAGE}}]


@pytest.fixture
def own(scripted_once: MochiServer) -> Any:
    chat = Chat(scripted_once.url)
    yield chat
    chat.http.close()


@pytest.fixture
def asked(scripted: MochiServer, client: openai.OpenAI) -> tuple[str, Any]:
    """Return a saved session whose last turn left a call to its client, and that call."""
    scripted.script(Reply("Let me look.", tool_calls=[ToolCall("weather", {"city": "Oslo"})]))
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=[HELLO], tools=[WEATHER], store=True
    )
    [choice] = raw.parse().choices
    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls
    return raw.headers["x-mochi-session-id"], call


def bring(client: openai.OpenAI, session_id: str, call: Any, result: str) -> Any:
    """Send the whole conversation with the result, as such clients do."""
    function = {"name": call.function.name, "arguments": call.function.arguments}
    answer = {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [{"id": call.id, "type": "function", "function": function}],
    }
    return client.chat.completions.create(
        model=MODEL,
        messages=[HELLO, answer, {"role": "tool", "tool_call_id": call.id, "content": result}],
        tools=[WEATHER],
        extra_headers={"X-Mochi-Session-Id": session_id},
    )


def test_a_call_that_waits_for_its_client_is_shown_as_such_and_goes_on_with_its_result(
    scripted, client, own, asked
):
    session_id, call = asked
    question, answer = own.messages(session_id)
    assert (question["content"], answer["done_reason"]) == (HELLO["content"], "tool_calls")
    [shown] = answer["tool_calls"]
    assert (shown["id"], shown["client_side"]) == (call.id, True)
    events = own.reattach(session_id)
    assert [event.name for event in events][-3:] == ["client_tool_call", "message_complete", "done"]
    assert events[-3].data == {
        "tool_name": "weather",
        "arguments": {"city": "Oslo"},
        "call_index": 0,
        "tool_call_id": call.id,
    }
    assert own.http.get(f"/sessions/{session_id}/status").json()["active_turn"] is None

    scripted.script(Reply("It rains."))
    completion = bring(client, session_id, call, "rain")
    assert completion.choices[0].message.content == "It rains."
    kept = [(it["role"], it["content"]) for it in own.messages(session_id)]
    assert kept[2:] == [("tool", "rain"), ("assistant", "It rains.")]


def test_a_message_of_our_own_api_gives_the_call_up(scripted, client, own, asked):
    session_id, call = asked
    scripted.script(Reply("Never mind then."))
    answer = own.http.post(f"/chat/{session_id}", json={"message": "Forget it."})
    assert answer.json()["message"]["content"] == "Never mind then."
    sent = scripted.model_requests[-1]["messages"]
    assert [(it["role"], it["content"]) for it in sent[-2:]] == [
        ("tool", "interrupted, not run again"),
        ("user", "Forget it."),
    ]

    scripted.script(Reply("Rain."))
    assert bring(client, session_id, call, "rain").choices[0].message.content == "Rain."
    sent = scripted.model_requests[-1]["messages"]
    assert [(it["role"], it["content"]) for it in sent[-2:]] == [
        ("assistant", "Let me look."),
        ("tool", "rain"),
    ]
    assert len(own.messages(session_id)) == 4, "it goes on in a copy that has not given it up"


def test_a_request_without_the_result_is_refused(client, own, asked):
    session_id, call = asked
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "Well?"}],
            tools=[WEATHER],
            extra_headers={"X-Mochi-Session-Id": session_id},
        )
    assert call.id in refused.value.message
    assert refused.value.body["mochi_code"] == "MISSING_TOOL_RESULT"
    assert len(own.messages(session_id)) == 2


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"tools": [WEATHER["function"], WEATHER["function"]]}, "tools.1.name"),
        ({"forwardedProps": {"model": PLAIN, "think": True}}, "forwardedProps.think"),
        ({"tools": [WEATHER["function"]], "forwardedProps": {"model": PLAIN}}, "tools"),
        (
            {"forwardedProps": {"model": PLAIN, "selectedTools": ["add"]}},
            "forwardedProps.selectedTools",
        ),
        (
            {"messages": [{"id": "m", "role": "user", "content": PICTURE}]},
            "messages.0",
        ),
        (
            {"messages": [{"id": "m", **HELLO}, {"id": "n", "role": "user", "content": PICTURE}]},
            "messages.1",
        ),
    ],
)
def test_what_ag_ui_refuses_has_the_names_of_its_fields(own, given, field):
    run = {
        "threadId": "refused",
        "runId": "r",
        "messages": [{"id": "m", **HELLO}],
        "forwardedProps": {"model": MODEL},
        **given,
    }
    refused = own.http.post("/agui", json=run)
    assert refused.status_code == 422
    assert refused.json()["error"]["details"]["field"] == field
