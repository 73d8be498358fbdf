"""Tokens of a request are counted before it is sent, and nothing comes of it."""

from base64 import b64encode

import openai as package
import pytest

from tests.unit.sessions_app.attachments.images import png

MODEL = "qwen3:14b"
TOOL = {
    "type": "function",
    "name": "look",
    "description": "Look at a place. " * 20,
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
}


@pytest.fixture
def count(openai):
    """Return how to count; the answer's form is checked."""

    def counted(**body):
        answer = openai.responses.input_tokens.count(**{"model": MODEL, "input": "Hello!", **body})
        assert answer.object == "response.input_tokens"
        return answer.input_tokens

    return counted


def test_everything_that_would_be_sent_is_counted(count):
    little = count()
    assert little > 0
    assert count(input="Hello! " * 50) > little
    assert count(instructions="Be brief. " * 50) > little
    assert count(tools=[TOOL]) > little


def test_what_is_continued_is_counted_and_not_changed(openai, count, chat):
    said = [{"role": "user", "content": "A long story. " * 50}]
    conversation = openai.conversations.create(items=said)
    assert count(conversation=conversation.id) > count() + 100
    assert len(openai.conversations.items.list(conversation.id).data) == 1
    first = openai.responses.create(model=MODEL, input="A long story. " * 50)
    before = chat.http.get("/sessions").json()["total"]
    assert count(previous_response_id=first.id) > count() + 100
    assert chat.http.get("/sessions").json()["total"] == before


def test_a_request_that_would_be_refused_is_not_counted(count):
    with pytest.raises(package.NotFoundError) as refusal:
        count(model="no-such-model")
    assert refusal.value.code == "model_not_found"
    with pytest.raises(package.BadRequestError) as refusal:
        count(input=[{"role": "robot", "content": "Hi"}])
    assert refusal.value.param == "input[0].role"
    with pytest.raises(package.BadRequestError) as refusal:
        count(previous_response_id="resp_none")
    assert refusal.value.code == "previous_response_not_found"


def test_images_are_counted_and_neither_stored_nor_fetched(count, server):
    def counted(*urls):
        images = [{"type": "input_image", "image_url": url} for url in urls]
        words = {"type": "input_text", "text": "Hello!"}
        said = [{"role": "user", "content": [words, *images]}]
        return count(model="scripted-vision:latest", input=said)

    inline = f"data:image/png;base64,{b64encode(png(3, 2)).decode()}"
    assert counted() + 100 < counted(inline) < counted(inline, "http://127.0.0.1:9/cat.png")
    files = [path for path in server.data_dir.rglob("*") if path.is_file()]
    assert all(path.read_bytes() != png(3, 2) for path in files)
