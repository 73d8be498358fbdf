"""What a model refuses is told as OpenAI tells it, so that no client sends it again."""

import openai
import pytest

from mochi_server.testing import Reply
from tests.functional.dialects.completions import complete
from tests.functional.dialects.responding import respond

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
    made = client.responses.create(model="openai:gpt-5.1", input="Hello!", stream=stream)
    response = list(made)[-1].response if stream else made
    assert (response.status, response.error) == ("incomplete", None)
    assert response.incomplete_details.reason == "content_filter"
    assert response.output_text == "Hel"
    assert client.responses.retrieve(response.id).to_dict() == response.to_dict()
