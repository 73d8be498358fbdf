"""What a model refuses is told as OpenAI tells it, so that no client sends it again."""

import openai
import pytest

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
