"""Conversations that their client has compacted, and goes on with."""

import openai
import pytest
from openai import OpenAI

from mochi_server.testing import MODEL, MochiServer, Reply

RECORD = "Ada lives in Paris and likes trees."
SAID = [
    {"role": "user", "content": "I am Ada, of Paris."},
    {"role": "assistant", "content": "Hello Ada!"},
    {"role": "user", "content": [{"type": "input_text", "text": "I like trees."}]},
    {"role": "assistant", "content": "So do I."},
]


def test_what_the_user_said_stays_and_a_record_stands_for_the_rest(
    scripted: MochiServer, client: OpenAI
) -> None:
    scripted.script(Reply(RECORD))
    compacted = client.responses.compact(model=MODEL, input=SAID)
    assert compacted.object == "response.compaction"
    *said, record = compacted.output
    assert [item.content[0].text for item in said] == ["I am Ada, of Paris.", "I like trees."]
    assert record.type == "compaction"
    assert compacted.usage.total_tokens > 0
    assert "So do I." in str(scripted.model_requests[-1])


def test_a_compacted_conversation_goes_on(scripted: MochiServer, client: OpenAI) -> None:
    scripted.script(Reply(RECORD), Reply("In Paris."))
    compacted = client.responses.compact(model=MODEL, input=SAID)
    items = [item.to_dict(warnings=False) for item in compacted.output]
    response = client.responses.create(
        model=MODEL, input=[*items, {"role": "user", "content": "Where do I live?"}]
    )
    assert response.output_text == "In Paris."
    asked = str(scripted.model_requests[-1])
    assert RECORD in asked
    assert "I like trees." in asked
    assert "So do I." not in asked


def test_a_saved_conversation_is_compacted_and_stays_as_it_is(
    scripted: MochiServer, client: OpenAI
) -> None:
    scripted.script(Reply("Hello Ada!"), Reply(RECORD))
    first = client.responses.create(model=MODEL, input="I am Ada.")
    compacted = client.responses.compact(model=MODEL, previous_response_id=first.id)
    said, record = compacted.output
    assert (said.content[0].text, record.type) == ("I am Ada.", "compaction")
    assert client.responses.retrieve(first.id).output_text == "Hello Ada!"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": []}, "input"),
        ({"input": [{"type": "compaction", "encrypted_content": "gAAAA"}]}, "input"),
        ({"previous_response_id": "resp_nobody"}, "previous_response_id"),
    ],
)
def test_what_can_not_be_compacted_is_refused(
    scripted: MochiServer, client: OpenAI, body: dict[str, object], param: str
) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        client.responses.compact(model=MODEL, **body)
    assert refused.value.status_code in {400, 404}
    assert refused.value.param == param
    assert not scripted.model_requests


def test_a_model_that_can_not_be_asked_is_told(scripted: MochiServer, client: OpenAI) -> None:
    scripted.script(Reply(status=503, times=9))
    with pytest.raises(openai.APIStatusError) as failed:
        client.responses.compact(model=MODEL, input=SAID)
    assert failed.value.status_code in {502, 503}
