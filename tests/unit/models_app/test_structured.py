"""Structured answers: Ollama's way, and in words for everybody else."""

import msgspec
import pytest
from pydantic import BaseModel

from models_app.errors import (
    ModelNotFound,
    OllamaUnreachable,
    SchemaNotSupported,
    ServiceUnavailable,
)
from models_app.language_model import Finished, ModelRequest, TextDelta, ThinkingDelta
from models_app.ollama.language_model import OllamaLanguageModel
from models_app.structured import (
    ATTEMPTS,
    LONGEST_THOUGHT,
    Question,
    StructuredModels,
    whole_answer,
)

QUESTION = Question(instructions="Describe it.", text="A cat.", context_window=4096)


class Animal(BaseModel):
    name: str
    legs: int


class Speaker:
    """A language model that says one text after another."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.requests = []

    async def stream(self, request):
        self.requests.append(request)
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        yield [ThinkingDelta('{"not": "this"}'), TextDelta(text[:7])]
        yield [TextDelta(text[7:]), Finished()]


def asking(language_model, host="http://localhost:1"):
    return StructuredModels(
        lambda name: (language_model, name),
        is_of_ollama=lambda _: isinstance(language_model, OllamaLanguageModel),
        ollama_host=host,
        silence_timeout=5,
    )


@pytest.mark.allow_blocking  # the ollama library reads its version while it is imported
async def test_ollama_gives_an_answer_of_the_form(scripted):
    models = asking(OllamaLanguageModel(scripted.url), scripted.url)

    assert isinstance(await models.ask("qwen3:14b", QUESTION, Animal), Animal)
    with pytest.raises(ModelNotFound):
        await models.ask("missing:1b", QUESTION, Animal)


@pytest.mark.allow_blocking
async def test_ollama_keeps_the_model_as_long_as_the_question_or_else_the_server_says(scripted):
    noted = []

    async def note(name, window):
        noted.append((name, window))

    models = StructuredModels(
        lambda name: (None, name),
        is_of_ollama=lambda _: True,
        ollama_host=scripted.url,
        silence_timeout=5,
        note_window=note,
        keep_alive="1h",
    )
    await models.ask("qwen3:14b", QUESTION, Animal)
    await models.ask("qwen3:14b", msgspec.structs.replace(QUESTION, keep_alive=0), Animal)
    await models.aclose()
    assert [request["keep_alive"] for request in scripted.requests] == ["1h", 0]
    assert noted == [("qwen3:14b", 4096)] * 2


@pytest.mark.allow_blocking
async def test_an_ollama_that_is_not_there_is_no_surprise():
    with pytest.raises(OllamaUnreachable):
        await asking(OllamaLanguageModel("http://localhost:1")).ask("qwen3:14b", QUESTION, Animal)


@pytest.mark.allow_blocking
async def test_one_client_asks_ollama_until_it_is_closed(fake, wire):
    content = '{"name": "cat", "legs": 4}'
    fake.answers = [
        wire.refusal(200, {**wire.DONE, "message": {"role": "assistant", "content": content}})
    ]
    models = asking(OllamaLanguageModel(fake.url), fake.url)

    for _ in range(2):
        assert (await models.ask("m", QUESTION, Animal)).legs == 4
    assert fake.connections == 1
    await models.aclose()
    assert (await models.ask("m", QUESTION, Animal)).legs == 4
    assert fake.connections == 2
    await models.aclose()


async def test_other_models_are_asked_in_words_and_json_is_found_among_theirs():
    model = Speaker('Here you are:\n```json\n{"name": "cat", "legs": 4}\n```')

    assert await asking(model).ask("openai:gpt", QUESTION, Animal) == Animal(name="cat", legs=4)

    (request,) = model.requests
    assert request.messages[0].content.startswith("Describe it.")
    assert '"legs"' in request.messages[0].content
    assert request.messages[1].content == "A cat."
    assert request.answer_schema == Animal.model_json_schema()


@pytest.mark.parametrize("kind", [ServiceUnavailable, SchemaNotSupported])
async def test_a_provider_that_refuses_the_schema_is_asked_in_words_alone(kind):
    refusal = kind("This response_format type is unavailable now", retryable=False)
    model = Speaker(refusal, '{"name": "cat", "legs": 4}')

    assert (await asking(model).ask("mine:m", QUESTION, Animal)).legs == 4
    assert [request.answer_schema is None for request in model.requests] == [False, True]

    with pytest.raises(kind, match="unavailable now"):
        await asking(Speaker(refusal, refusal)).ask("mine:m", QUESTION, Animal)


async def test_an_answer_of_another_form_is_asked_for_again_and_then_given_up():
    model = Speaker("No.", '{"name": "cat"}', '{"name": "cat", "legs": 4}')
    assert (await asking(model).ask("openai:gpt", QUESTION, Animal)).legs == 4

    with pytest.raises(ServiceUnavailable) as failed:
        await asking(Speaker("No.", "No!", "Never.")).ask("openai:gpt", QUESTION, Animal)
    assert failed.value.details["provider"] == "openai"
    assert failed.value.retryable


async def test_a_model_that_does_not_stop_is_stopped():
    closed = []

    class Babbler:
        async def stream(self, request):
            try:
                while True:
                    yield [TextDelta("x" * 1000)]
            finally:
                closed.append(request)

    with pytest.raises(ServiceUnavailable, match="form Animal"):
        await asking(Babbler()).ask("mine:m", QUESTION, Animal)

    assert len(closed) == ATTEMPTS


async def test_a_model_that_reasons_for_ever_is_stopped_too():
    class Thinker:
        said = 0

        async def stream(self, request):
            while True:
                self.said += 1
                yield [ThinkingDelta("x" * 1000)]

    thinker = Thinker()
    request = ModelRequest(model="m", messages=[])
    assert await whole_answer(thinker, request, enough=100) == ""
    assert thinker.said <= LONGEST_THOUGHT // 1000 + 2
