"""What a model refuses is told as OpenAI tells it, so that no client sends it again."""

import httpx
import openai
import pytest

from mochi_server.testing import MODEL, Reply
from tests.functional.conftest import NO_TLS
from tests.functional.dialects.completions import complete, with_headers
from tests.functional.dialects.responding import respond

REFUSING = "openai:gpt-5.1"
LONG = "word " * 60_000
ASK = {
    "chat completions": lambda client, **how: complete(
        client, {"role": "user", "content": LONG}, **how
    ),
    "responses": lambda client, **how: respond(client, LONG, **how),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("protocol", ASK)
def test_a_conversation_that_is_too_long_is_the_request_s_fault(client, protocol, stream):
    with pytest.raises(openai.BadRequestError) as refused:
        ASK[protocol](client, stream=stream)
    error = refused.value
    assert (error.code, error.type) == ("context_length_exceeded", "invalid_request_error")


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_that_its_provider_cuts_off_keeps_its_text(scripted, client, stream):
    scripted.script(Reply(["Hel", "lo!"], refuse_after=1))
    made = client.responses.create(model=REFUSING, input="Hello!", stream=stream)
    response = list(made)[-1].response if stream else made
    assert (response.status, response.error) == ("incomplete", None)
    assert response.incomplete_details.reason == "content_filter"
    assert response.output_text == "Hel"
    assert client.responses.retrieve(response.id).to_dict() == response.to_dict()


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_that_its_provider_refuses_at_once_ends_as_filtered(scripted, client, stream):
    scripted.script(Reply("Hello!", refuse_after=0))
    made = client.responses.create(model=REFUSING, input="Hello!", stream=stream)
    response = list(made)[-1].response if stream else made
    assert (response.status, response.error, response.output) == ("incomplete", None, [])
    assert response.incomplete_details.reason == "content_filter"
    assert response.model == REFUSING
    assert client.responses.retrieve(response.id).to_dict() == response.to_dict()
    scripted.script("Hello!")
    again = client.responses.create(
        model=REFUSING, input="And now?", previous_response_id=response.id
    )
    assert again.output_text == "Hello!"


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_that_its_provider_refuses_at_once_says_why(scripted, client, stream):
    scripted.script(Reply("Hello!", refuse_after=0))
    if stream:
        chunks = list(complete(client, model=REFUSING, store=True, stream=True))
        choices = [chunk.choices[0] for chunk in chunks]
        reason = choices[-1].finish_reason
        content, refusal = (
            "".join(getattr(choice.delta, name) or "" for choice in choices)
            for name in ("content", "refusal")
        )
    else:
        completion, headers = with_headers(client, model=REFUSING, store=True)
        assert headers["x-mochi-session-id"]
        message, reason = completion.choices[0].message, completion.choices[0].finish_reason
        content, refusal = message.content, message.refusal
    assert (reason, content) == ("content_filter", "")
    assert "refused the content" in refusal


def test_a_model_server_that_is_asked_too_often_says_when_to_ask_again(scripted, client):
    scripted.script(Reply(status=429, retry_after=30, times=9))
    with pytest.raises(openai.RateLimitError) as refused:
        complete(client)
    assert refused.value.response.headers["retry-after"] == "30"


@pytest.mark.parametrize(("asked", "told"), [(30, "30"), (None, "5")])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/ui/chat", "/chat"])
def test_a_busy_provider_is_asked_again_when_it_says(scripted, path, asked, told):
    scripted.script(Reply(status=503, retry_after=asked, times=9))
    said = {"messages": [{"role": "user", "content": "Hello!"}]} if "completions" in path else {}
    said = said or {"input": "Hello!"} if path.startswith("/v1") else {"message": "Hello!"}
    if path == "/ui/chat":
        parts = [{"type": "text", "text": "Hello!"}]
        said = {"id": "busy", "message": {"id": "m1", "role": "user", "parts": parts}}
    url = scripted.url if path.startswith("/v1") else scripted.api_url
    body = {"model": MODEL, **said}
    answer = httpx.post(f"{url}{path}", json=body, trust_env=False, verify=NO_TLS, timeout=60)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, told)
