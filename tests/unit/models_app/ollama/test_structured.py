"""Answers in a format, from the client that asks for them."""

import logging

import pytest
from pydantic import BaseModel

from mochi_server.ollama import AsyncInstructorOllamaClient
from models_app.errors import (
    ContextOverflow,
    ModelNotFound,
    OllamaError,
)

HI = [{"role": "user", "content": "hi"}]


class Weather(BaseModel):
    place: str
    degrees: int


@pytest.fixture
async def instructor(fake):
    made = AsyncInstructorOllamaClient(fake.url)
    yield made
    await made.close()


def reply(content="{}"):
    return {
        "model": "m",
        "message": {"role": "assistant", "content": content},
        "done": True,
        "done_reason": "stop",
    }


async def test_a_structured_answer_fits_its_format(instructor, fake, wire):
    fake.answers = [wire.refusal(200, reply('{"place": "Kyoto", "degrees": 21}'))]
    answer = await instructor.structured_response("m", HI, Weather, options={"num_ctx": 4096})
    assert Weather.model_validate_json(answer.message.content).degrees == 21
    body = fake.chats[0].json
    assert body["format"] == Weather.model_json_schema()
    assert body["options"] == {"num_ctx": 4096}
    assert body["think"] is False
    assert (body["truncate"], body["shift"], body["stream"]) == (False, False, False)


async def test_structured_answers_share_a_connection_until_it_is_closed(instructor, fake, wire):
    fake.answers = [wire.refusal(200, reply('{"place": "Kyoto", "degrees": 21}'))]
    for _ in range(2):
        await instructor.structured_response("m", HI, Weather)
    assert fake.connections == 1
    await instructor.close()
    await instructor.structured_response("m", HI, Weather)
    assert fake.connections == 2


async def test_a_structured_answer_that_never_ends_is_an_error(instructor, fake, wire, monkeypatch):
    monkeypatch.setattr("models_app.ollama.structured.MAX_LINE_BYTES", 1000)
    fake.answers = [wire.refusal(200, reply(f'{{"place": "{"x" * 1000}", "degrees": 21}}'))]
    with pytest.raises(OllamaError, match="longer than"):
        await instructor.structured_response("m", HI, Weather)


async def test_a_structured_answer_that_the_window_cuts_off_is_an_overflow(instructor, fake, wire):
    cut = {**reply('{"pl'), "done_reason": "length", "prompt_eval_count": 4000, "eval_count": 94}
    fake.answers = [wire.refusal(200, cut)]
    with pytest.raises(ContextOverflow) as raised:
        await instructor.structured_response("m", HI, Weather, options={"num_ctx": 4096})
    assert raised.value.details["n_prompt_tokens"] == 4000
    assert len(fake.chats) == 1
    with pytest.raises(OllamaError, match="of the form"):  # a limit of its own, not the window's
        await instructor.structured_response("m", HI, Weather, options={"num_ctx": 8192})


async def test_a_structured_answer_of_a_request_that_does_not_fit_is_an_overflow(
    instructor, fake, wire
):
    too_long = {
        "error": '{"error":{"code":400,"message":"request (18019 tokens) exceeds the available '
        'context size","type":"exceed_context_size_error","n_prompt_tokens":18019,"n_ctx":4096}}'
    }
    fake.answers = [wire.refusal(400, too_long)]
    with pytest.raises(ContextOverflow) as raised:
        await instructor.structured_response("m", HI, Weather, options={"num_ctx": 4096})
    assert raised.value.details["n_prompt_tokens"] == 18019


async def test_an_answer_that_does_not_fit_is_asked_for_again(instructor, fake, wire):
    fake.answers = [wire.refusal(200, reply("nonsense")), wire.refusal(200, reply('{"place": 1}'))]
    fake.answers.append(wire.refusal(200, reply('{"place": "Kyoto", "degrees": 21}')))
    answer = await instructor.structured_response("m", HI, Weather)
    assert "Kyoto" in answer.message.content
    assert len(fake.chats) == 3


async def test_answers_that_never_fit_are_an_error_and_no_prompt_is_logged(
    instructor, fake, wire, caplog, capsys
):
    caplog.set_level(logging.DEBUG)
    fake.answers = [wire.refusal(200, reply("nonsense"))]
    secret = [{"role": "user", "content": "my secret"}]
    with pytest.raises(OllamaError, match="of the form Weather") as raised:
        await instructor.structured_response("m", secret, Weather, attempts=2)
    assert raised.value.retryable
    assert len(fake.chats) == 2
    printed = capsys.readouterr()
    assert "secret" not in caplog.text + printed.out + printed.err


async def test_an_answer_without_content_is_an_error(instructor, fake, wire):
    empty = {**reply(), "message": {"role": "assistant"}}
    fake.answers = [wire.refusal(200, empty)]
    with pytest.raises(OllamaError, match="without content"):
        await instructor.structured_response("m", HI, Weather)


async def test_a_structured_refusal_is_a_typed_error(instructor, fake, wire):
    fake.answers = [wire.refusal(404, {"error": "model 'm' not found"})]
    with pytest.raises(ModelNotFound):
        await instructor.structured_response("m", HI, Weather)
