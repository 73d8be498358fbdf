"""``POST /v1/chat/completions`` as the official package speaks it, against a real scripted."""

import json

import openai
import pytest
from pydantic import BaseModel

from mochi_server.testing import MODEL, Reply
from tests.functional.dialects.completions import (
    HELLO,
    complete,
    saved,
    with_headers,
)

THINKS = {"reasoning_effort": "medium"}


class Person(BaseModel):
    name: str
    age: int


def test_a_plain_answer_is_whole_and_nothing_is_saved(scripted, client):
    before = saved(scripted)
    scripted.script(Reply(["Hel", "lo!"], reasoning="They greet."))
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
    assert usage.prompt_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert "x-mochi-session-id" not in headers
    assert saved(scripted) == before


def test_a_stream_has_one_identity_one_end_and_the_same_text(scripted, client):
    scripted.script(Reply(["Hel", "lo!"], reasoning=["They ", "greet."]))
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
    assert last.usage.completion_tokens > 0


def test_the_package_s_stream_helper_understands_the_stream(scripted, client):
    scripted.script(Reply(["Hel", "lo!"]))
    with client.chat.completions.stream(model=MODEL, messages=[HELLO]) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        completion = stream.get_final_completion()
    assert "".join(deltas) == "Hello!"
    assert completion.choices[0].message.content == "Hello!"


def test_a_form_of_the_answer_is_asked_of_the_model_and_parsed(scripted, client):
    completion = client.chat.completions.parse(
        model=MODEL, messages=[HELLO], response_format=Person
    )
    assert isinstance(completion.choices[0].message.parsed, Person)
    assert scripted.model_requests[-1]["format"]["properties"].keys() == {"name", "age"}
    answer = complete(client, response_format={"type": "json_object"})
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


@pytest.mark.parametrize("stream", [False, True])
def test_a_form_that_nothing_fits_is_the_requests_fault(scripted, client, stream):
    endless = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "endless", "schema": endless}}
    with pytest.raises(openai.BadRequestError) as refused:
        complete(client, response_format=form, stream=stream)
    assert refused.value.type == "invalid_request_error"
    assert refused.value.param == "response_format"
    assert "invalid JSON schema" in refused.value.message


def test_what_a_request_says_reaches_the_model(scripted, client):
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
    request = scripted.model_requests[-1]
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


def test_an_answer_that_came_to_its_limit_says_so(scripted, client):
    scripted.script(" ".join(["word"] * 50))
    assert complete(client, max_tokens=5).choices[0].finish_reason == "length"


def test_an_error_in_mid_stream_is_raised_with_its_words(scripted, client):
    scripted.script(Reply(["Hel", "lo!"], error_line="runner died"))
    said: list[str] = []
    stream = complete(client, stream=True)
    with pytest.raises(openai.APIError, match="runner died") as raised:
        said.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "".join(said) == "Hel"
    assert raised.value.body["mochi_code"] == "OLLAMA_ERROR"


def test_an_error_before_the_answer_has_a_status(scripted, client):
    scripted.script(Reply(["Hel", "lo!"], error_line="runner died", times=9))
    with pytest.raises(openai.APIStatusError, match="runner died") as raised:
        complete(client)
    assert raised.value.status_code == 502
    assert raised.value.body["mochi_code"] == "OLLAMA_ERROR"


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_that_its_provider_refuses_is_filtered_and_says_why(scripted, client, streams):
    scripted.script(Reply(["Hel", "lo!"], refuse_after=1))
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


IN_IMAGE = "messages[0].content[0].image_url.url"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa"}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        (
            {"messages": [{"role": "user", "content": [IMAGE]}]},
            IN_IMAGE,
        ),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            {"messages": [HELLO, {"role": "tool", "tool_call_id": "x", "content": "1"}]},
            "messages[1].tool_call_id",
        ),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"temperature": 3}, "temperature"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"model": "scripted-plain:latest", "reasoning_effort": "high"}, "reasoning_effort"),
    ],
)
@pytest.mark.parametrize("how", [{}, {"stream": True}, {"store": True}])
def test_what_can_t_be_done_is_refused_by_its_path_and_nothing_is_saved(
    scripted, client, fields, param, how
):
    before = saved(scripted)
    with pytest.raises(openai.BadRequestError) as raised:
        complete(client, **{**fields, **how})
    assert raised.value.param == param
    assert raised.value.type == "invalid_request_error"
    assert raised.value.body["mochi_code"] == "VALIDATION_ERROR"
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert saved(scripted) == before
    assert scripted.model_requests == []


def test_what_is_not_obeyed_is_noted(client):
    _, headers = with_headers(client, logit_bias={"1": -100})
    assert headers["x-mochi-warning"] == "logit_bias: not obeyed"
