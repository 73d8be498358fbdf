"""Structured answers: Ollama's way, and in words for everybody else."""

import msgspec
import pytest
from pydantic import BaseModel

from models_app.errors import (
    ContextOverflow,
    ModelNotFound,
    OllamaError,
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
    ask_for_json,
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


class Catalogue:
    """A catalogue of one language model."""

    def __init__(self, language_model):
        self.language_model = language_model

    def resolve(self, name):
        return self.language_model, name

    def is_of_ollama(self, _):
        return isinstance(self.language_model, OllamaLanguageModel)


async def ask(language_model, name, **changes):
    question = msgspec.structs.replace(QUESTION, **changes)
    return await ask_for_json(Catalogue(language_model), name, question, Animal)


async def test_ollama_gives_an_answer_of_the_form(scripted):
    model = OllamaLanguageModel(scripted.url)

    assert isinstance(await ask(model, "qwen3:14b", answer_tokens=500), Animal)
    with pytest.raises(ModelNotFound):
        await ask(model, "missing:1b")

    sent = scripted.requests[0]
    assert sent["format"] == Animal.model_json_schema()
    assert sent["think"] is False
    assert sent["options"] == {"num_ctx": 4096, "num_predict": 500}
    await model.aclose()


async def test_ollama_keeps_the_model_as_long_as_the_question_or_else_the_server_says(scripted):
    model = OllamaLanguageModel(scripted.url, keep_alive="1h")
    await ask(model, "qwen3:14b")
    await ask(model, "qwen3:14b", keep_alive=0)
    assert [request["keep_alive"] for request in scripted.requests] == ["1h", 0]
    await model.aclose()


async def test_an_ollama_that_is_not_there_is_no_surprise():
    with pytest.raises(OllamaUnreachable):
        await ask(OllamaLanguageModel("http://localhost:1"), "qwen3:14b")


async def test_an_answer_of_ollama_that_the_window_cuts_off_is_an_overflow(fake, wire):
    cut = {**wire.DONE, "done_reason": "length", "prompt_eval_count": 4000, "eval_count": 94}
    fake.answers = [wire.stream_of(wire.text('{"na'), cut)]
    model = OllamaLanguageModel(fake.url)
    with pytest.raises(ContextOverflow) as raised:
        await ask(model, "m")
    assert raised.value.details["n_prompt_tokens"] == 4000
    assert len(fake.chats) == 1
    with pytest.raises(OllamaError, match="of the form"):  # a limit of its own, not the window's
        await ask(model, "m", context_window=8192)
    await model.aclose()


async def test_a_question_that_does_not_fit_ollamas_window_is_an_overflow(fake, wire):
    fake.models = {"m:latest": wire.shown("completion")}
    error = {"message": "too long", "type": "exceed_context_size_error", "n_prompt_tokens": 5000}
    fake.answers = [wire.refusal(400, {"error": {"error": error}})]
    model = OllamaLanguageModel(fake.url)
    with pytest.raises(ContextOverflow) as raised:
        await ask(model, "m")
    assert raised.value.details["n_prompt_tokens"] == 5000
    assert len(fake.chats) == 1
    await model.aclose()


async def test_other_models_are_asked_in_words_and_json_is_found_among_theirs():
    model = Speaker('Here you are:\n```json\n{"name": "cat", "legs": 4}\n```')

    assert await ask(model, "openai:gpt") == Animal(name="cat", legs=4)

    (request,) = model.requests
    assert request.messages[0].content.startswith("Describe it.")
    assert '"legs"' in request.messages[0].content
    assert request.messages[1].content == "A cat."
    assert request.answer_schema == Animal.model_json_schema()


@pytest.mark.parametrize("kind", [ServiceUnavailable, SchemaNotSupported])
async def test_a_provider_that_refuses_the_schema_is_asked_in_words_alone(kind):
    refusal = kind("This response_format type is unavailable now", retryable=False)
    model = Speaker(refusal, '{"name": "cat", "legs": 4}')

    assert (await ask(model, "mine:m")).legs == 4
    assert [request.answer_schema is None for request in model.requests] == [False, True]

    with pytest.raises(kind, match="unavailable now"):
        await ask(Speaker(refusal, refusal), "mine:m")


async def test_an_answer_of_another_form_is_asked_for_again_and_then_given_up():
    model = Speaker("No.", '{"name": "cat"}', '{"name": "cat", "legs": 4}')
    assert (await ask(model, "openai:gpt")).legs == 4

    with pytest.raises(ServiceUnavailable) as failed:
        await ask(Speaker("No.", "No!", "Never."), "openai:gpt")
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
        await ask(Babbler(), "mine:m")

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
