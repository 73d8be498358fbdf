"""``POST /v1/chat/completions`` as the official package speaks it, against a real server."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall

TOOLS = '''
"""Tools of this server."""

__all__ = ["add", "wipe"]
__destructive__ = ["wipe"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def wipe() -> str:
    """Remove everything."""
    return "wiped"
'''
HELLO: Any = {"role": "user", "content": "Hello!"}
THINKS = {"reasoning_effort": "medium"}


class Weather(BaseModel):
    """Tell the weather of a city."""

    city: str


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(scope="module")
def shared(serve_once: Callable[..., MochiServer]) -> MochiServer:
    server = serve_once()
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "own.py").write_text(TOOLS)
    return server


@pytest.fixture
def server(shared: MochiServer) -> MochiServer:
    shared.reset()
    return shared


@pytest.fixture
def client(shared: MochiServer, connect: Callable[..., openai.OpenAI]) -> openai.OpenAI:
    return connect(shared)


def native(server: MochiServer, path: str) -> Any:
    return httpx.get(f"{server.api_url}{path}", trust_env=False, timeout=30).json()


def saved(server: MochiServer) -> int:
    return len(native(server, "/sessions")["sessions"])


def messages(server: MochiServer, session_id: str) -> list[Any]:
    return native(server, f"/sessions/{session_id}/messages")["messages"]


def complete(client: openai.OpenAI, *said: Any, **fields: Any) -> Any:
    fields = {"model": MODEL, "messages": list(said) or [HELLO], **fields}
    return client.chat.completions.create(**fields)


def with_headers(client: openai.OpenAI, *said: Any, **fields: Any) -> tuple[Any, Any]:
    """Return a completion, and the headers that it came with."""
    fields = {"model": MODEL, "messages": list(said) or [HELLO], **fields}
    raw = client.chat.completions.with_raw_response.create(**fields)
    return raw.parse(), raw.headers


def test_a_plain_answer_is_whole_and_nothing_is_saved(server, client):
    before = saved(server)
    server.script(Reply(["Hel", "lo!"], reasoning="They greet."))
    completion, headers = with_headers(client, **THINKS)
    assert completion.id.startswith("chatcmpl-")
    assert completion.object == "chat.completion"
    assert completion.model == MODEL
    message = completion.choices[0].message
    assert message.content == "Hello!"
    assert message.reasoning_content == message.reasoning == "They greet."
    assert message.tool_calls is None
    assert completion.choices[0].finish_reason == "stop"
    usage = completion.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert "x-mochi-session-id" not in headers
    assert saved(server) == before


def test_a_stream_has_one_identity_one_end_and_the_same_text(server, client):
    server.script(Reply(["Hel", "lo!"], reasoning=["They ", "greet."]))
    stream = complete(client, stream=True, stream_options={"include_usage": True}, **THINKS)
    *chunks, last = list(stream)
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in [*chunks, last]}) == 1
    choices = [chunk.choices[0] for chunk in chunks]
    assert choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in choices) == "Hello!"
    for name in ("reasoning", "reasoning_content"):
        thoughts = [getattr(choice.delta, name, None) or "" for choice in choices]
        assert "".join(thoughts) == "They greet."
    reasons = [choice.finish_reason for choice in choices]
    assert [reason for reason in reasons if reason] == ["stop"]
    assert [chunk.usage for chunk in chunks] == [None] * len(chunks)
    assert last.choices == []
    assert last.usage is not None


def test_the_package_s_stream_helper_understands_the_stream(server, client):
    server.script(Reply(["Hel", "lo!"]))
    with client.chat.completions.stream(model=MODEL, messages=[HELLO]) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        completion = stream.get_final_completion()
    assert "".join(deltas) == "Hello!"
    assert completion.choices[0].message.content == "Hello!"


def test_what_a_request_says_reaches_the_model(server, client):
    complete(
        client,
        {"role": "system", "content": "Be kind."},
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop=["END"],
        max_completion_tokens=50,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        user="ada",
        extra_body={"keep_alive": "5m"},
    )
    request = server.model_requests[-1]
    assert [(each["role"], each["content"]) for each in request["messages"]] == [
        ("system", "Be kind.\n\nBe brief."),
        ("user", "Hi"),
    ]
    options = request["options"]
    assert options["temperature"] == 0.5
    assert options["top_p"] == 0.9
    assert options["seed"] == 7
    assert options["stop"] == ["END"]
    assert options["num_predict"] == 50
    assert options["presence_penalty"] == 0.1
    assert options["frequency_penalty"] == 0.2


def test_an_answer_that_came_to_its_limit_says_so(server, client):
    server.script(" ".join(["word"] * 50))
    assert complete(client, max_tokens=5).choices[0].finish_reason == "length"


def test_an_error_in_mid_stream_is_raised_with_its_words(server, client):
    server.script(Reply(["Hel", "lo!"], error_line="runner died"))
    said: list[str] = []
    stream = complete(client, stream=True)
    with pytest.raises(openai.APIError, match="runner died") as raised:
        said.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "".join(said) == "Hel"
    assert raised.value.body["mochi_code"] == "OLLAMA_ERROR"


def test_an_error_before_the_answer_has_a_status(server, client):
    server.script(Reply(["Hel", "lo!"], error_line="runner died", times=9))
    with pytest.raises(openai.APIStatusError, match="runner died") as raised:
        complete(client)
    assert raised.value.status_code == 502
    assert raised.value.body["mochi_code"] == "OLLAMA_ERROR"


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_that_its_provider_refuses_ends_as_filtered_and_says_why(server, client, streams):
    server.script(Reply(["Hel", "lo!"], refuse_after=1))
    if streams:
        with client.chat.completions.stream(model="openai:gpt-5.1", messages=[HELLO]) as stream:
            choices = [event.chunk.choices[0] for event in stream if event.type == "chunk"]
        reasons = [choice.finish_reason for choice in choices if choice.finish_reason]
        texts = "".join(choice.delta.content or "" for choice in choices)
        refusal = "".join(choice.delta.refusal or "" for choice in choices)
    else:
        choice = complete(client, model="openai:gpt-5.1").choices[0]
        reasons, texts, refusal = (
            [choice.finish_reason],
            choice.message.content,
            choice.message.refusal,
        )
    assert reasons == ["content_filter"]
    assert texts == "Hel"
    assert "refused the content" in refusal


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError) as raised:
        complete(client, model="nobody/knows:it")
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            {"messages": [HELLO, {"role": "tool", "tool_call_id": "x", "content": "1"}]},
            "messages[1].tool_call_id",
        ),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"temperature": 3}, "temperature"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"model": "scripted-plain:latest", "reasoning_effort": "high"}, "reasoning_effort"),
    ],
)
@pytest.mark.parametrize("how", [{}, {"stream": True}, {"store": True}])
def test_what_can_t_be_done_is_refused_by_its_path_and_nothing_is_saved(
    server, client, fields, param, how
):
    before = saved(server)
    with pytest.raises(openai.BadRequestError) as raised:
        complete(client, **{**fields, **how})
    assert raised.value.param == param
    assert raised.value.type == "invalid_request_error"
    assert raised.value.body["mochi_code"] == "VALIDATION_ERROR"
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert saved(server) == before
    assert server.model_requests == []


def test_a_stored_completion_is_a_session_that_can_be_continued(server, client):
    server.script("Hi!", "Fine.")
    system: Any = {"role": "system", "content": "Be kind."}
    first, headers = with_headers(client, system, HELLO, store=True, metadata={"topic": "manners"})
    session_id = headers["x-mochi-session-id"]
    answer: Any = {"role": "assistant", "content": first.choices[0].message.content}
    question: Any = {"role": "user", "content": "How are you?"}
    _, headers = with_headers(
        client, system, HELLO, answer, question, extra_headers={"X-Mochi-Session-Id": session_id}
    )
    assert headers["x-mochi-session-id"] == session_id
    assert [(each["role"], each["content"]) for each in messages(server, session_id)] == [
        ("system", "Be kind."),
        ("user", "Hello!"),
        ("assistant", "Hi!"),
        ("user", "How are you?"),
        ("assistant", "Fine."),
    ]


def test_a_session_is_answered_by_its_own_model_alone(server, client):
    _, headers = with_headers(client, store=True)
    named = {"X-Mochi-Session-Id": headers["x-mochi-session-id"]}
    with pytest.raises(openai.BadRequestError) as raised:
        complete(client, model="scripted-plain:latest", extra_headers=named)
    assert raised.value.param == "model"
    with pytest.raises(openai.NotFoundError):
        complete(client, extra_headers={"X-Mochi-Session-Id": "0123456789"})


def test_tools_of_this_server_run_inside_where_a_header_names_them(server, client):
    server.script(Reply("Let me see.", tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "Three.")
    answer = complete(client, extra_headers={"X-Mochi-Tools": "add"})
    message = answer.choices[0].message
    assert message.content == "Let me see.\n\nThree."
    assert message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"
    assert server.model_requests[-1]["messages"][-1]["content"] == "3"


def test_a_tool_of_this_server_that_needs_an_approval_is_denied(server, client):
    server.script(ToolCall("wipe"), "I may not.")
    answer = complete(client, extra_headers={"X-Mochi-Tools": "wipe"})
    assert answer.choices[0].message.content == "I may not."
    assert "wiped" not in server.model_requests[-1]["messages"][-1]["content"]


def test_tools_of_this_server_are_not_offered_unasked(server, client):
    complete(client)
    assert "tools" not in server.model_requests[-1]
    with pytest.raises(openai.NotFoundError) as raised:
        complete(client, extra_headers={"X-Mochi-Tools": "nobody"})
    assert raised.value.body["mochi_code"] == "TOOL_NOT_FOUND"


def test_a_name_that_both_offer_is_refused(client):
    tool: Any = {"type": "function", "function": {"name": "add"}}
    with pytest.raises(openai.BadRequestError) as raised:
        complete(client, tools=[tool], extra_headers={"X-Mochi-Tools": "add"})
    assert raised.value.param == "tools"


def test_what_is_not_obeyed_is_noted(client):
    _, headers = with_headers(client, logit_bias={"1": -100})
    assert headers["x-mochi-warning"] == "logit_bias: not obeyed"


def test_the_same_key_gets_the_same_completion(server, client):
    server.script("first", "second")
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


def wait_for_answer(server: MochiServer, session_id: str) -> Any:
    """Return the last message of a session, once it is the model's."""
    deadline = time.monotonic() + 60
    while (last := messages(server, session_id)[-1])["role"] != "assistant":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return last


def test_who_leaves_an_attached_completion_stops_the_model(server, client):
    _, headers = with_headers(client, store=True)
    session_id = headers["x-mochi-session-id"]
    server.script(Reply(["Hel", "lo!"], stall_seconds=300, stall_after=1))
    stream = complete(client, stream=True, extra_headers={"X-Mochi-Session-Id": session_id})
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    assert wait_for_answer(server, session_id)["cancelled"]


def test_a_stored_completion_goes_on_when_its_client_leaves(server, client):
    server.script(Reply(["Hel", "lo!"], stall_seconds=0.2, stall_after=1))
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL, messages=[HELLO], stream=True, store=True
    )
    stream = raw.parse()
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    answer = wait_for_answer(server, raw.headers["x-mochi-session-id"])
    assert answer["content"] == "Hello!"


def test_a_chat_of_open_webui_has_no_session_unless_a_setting_says_so(server, client):
    before = saved(server)
    _, headers = with_headers(client, extra_headers={"X-OpenWebUI-Chat-Id": "c1"})
    assert "x-mochi-session-id" not in headers
    assert saved(server) == before


def test_a_chat_of_open_webui_can_have_a_session(serve_once, connect):
    chat = {"X-OpenWebUI-Chat-Id": "0f4c"}
    server = serve_once(MOCHI_OPENWEBUI_SESSIONS="true")
    client = connect(server)
    server.script("Hi!", "A title", "Fine.")

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
    assert [each["content"] for each in messages(server, first or "")] == [
        "Hello!",
        "Hi!",
        "How are you?",
        "Fine.",
    ]
