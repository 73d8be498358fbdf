"""Asks models for structured answers: JSON that fits a pydantic model."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from models_app.catalogue import ModelCatalogue
from models_app.cleaning import StreamCleaner
from models_app.errors import (
    OllamaError,
    SchemaNotSupported,
    ServiceUnavailable,
)
from models_app.language_model import (
    Finished,
    LanguageModel,
    ModelRequest,
    Purpose,
    TextDelta,
    ThinkingDelta,
)
from models_app.window_sizes import require_room
from sessions_app.keep_alive import KeepAlive
from sessions_app.messages import SystemMessage, UserMessage

ATTEMPTS = 3
LONGEST_ANSWER = 100_000
"""Characters of JSON; a model caught in a loop would write forever."""

LONGEST_THOUGHT = 100_000
"""Characters of reasoning before an answer, for the same reason."""

Form = TypeVar("Form", bound=BaseModel)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a structured answer.

    Attributes:
        instructions: The system prompt.
        text: The user message.
        context_window: The context window in tokens, if the provider supports it.
        answer_tokens: The longest answer of Ollama's models, in tokens; one caught in a loop would
            keep others waiting. Other providers count reasoning into such a limit.
        keep_alive: How long Ollama keeps the model loaded; None for the default.
        purpose: The purpose of the call, for observers.
    """

    instructions: str
    text: str
    context_window: int | None = None
    answer_tokens: int | None = None
    keep_alive: KeepAlive | None = None
    purpose: Purpose = "structured"


async def ask_for_json(
    models: ModelCatalogue, model: str, question: Question, form: type[Form]
) -> Form:
    """Ask any model to answer in JSON, and find the JSON in its answer.

    The prompt contains the schema. The first attempt also sends it as the provider's structured
    output; if that fails, or the answer is invalid, only the prompt is used (docs/decisions/0226).

    Raises:
        ModelNotFound: There is no such model.
        ContextOverflow: Ollama's model has no room for the question, or for the answer after it.
        ModelError: The provider can't be asked, or gave no answer of that form (retryable).
    """
    language_model, name = models.resolve(model)
    is_of_ollama = models.is_of_ollama(model)
    constrained = _request(name, question, form.model_json_schema(), is_of_ollama=is_of_ollama)
    plain = msgspec.structs.replace(constrained, answer_schema=None)
    for request in [constrained, *[plain] * (ATTEMPTS - 1)]:
        ends: list[Finished] = []
        try:
            text = await whole_answer(language_model, request, enough=LONGEST_ANSWER, ends=ends)
        except (ServiceUnavailable, SchemaNotSupported):  # some servers fail with any status
            if request is constrained:
                continue
            raise
        for end in ends:
            require_room(
                end.done_reason, end.prompt_eval_count, end.eval_count, request.context_window
            )
        try:
            return form.model_validate_json(text[text.find("{") : text.rfind("}") + 1])
        except ValidationError:
            continue
    failure = OllamaError if is_of_ollama else ServiceUnavailable
    raise failure(
        f"Model '{name}' did not give an answer of the form {form.__name__}.",
        retryable=True,
        provider="ollama" if is_of_ollama else model.partition(":")[0],
        model=name,
    )


def _request(
    name: str, question: Question, schema: Mapping[str, Any], *, is_of_ollama: bool
) -> ModelRequest:
    instructions = (
        f"{question.instructions}\n\nAnswer with one JSON object and nothing else. "
        f"It must fit this JSON schema:\n{msgspec.json.encode(schema).decode()}"
    )
    options = {"keep_alive": question.keep_alive}
    if is_of_ollama:
        options["num_predict"] = question.answer_tokens
    return ModelRequest(
        model=name,
        messages=[
            SystemMessage(content=instructions, message_id="", timestamp=""),
            UserMessage(content=question.text, message_id="", timestamp=""),
        ],
        think=False if is_of_ollama else None,
        context_window=question.context_window,
        keeps_window=True,  # who asks has less to say then
        options={option: value for option, value in options.items() if value is not None},
        answer_schema=schema,
        purpose=question.purpose,
    )


async def whole_answer(
    language_model: LanguageModel,
    request: ModelRequest,
    *,
    enough: int,
    ends: list[Finished] | None = None,
) -> str:
    """Return a model's answer as one clean text, without its reasoning.

    Args:
        language_model: The model's provider.
        request: The request.
        enough: Characters after which the model is stopped; the text so far is the answer.
        ends: The end of the answer, which counts its tokens, is appended to it.

    Raises:
        ModelError: The provider can't be asked, or its answer broke off.
    """
    cleaner = StreamCleaner()
    parts: list[str] = []
    length = thought = 0
    async with aclosing(language_model.stream(request)) as batches:
        async for batch in batches:
            for delta in batch:
                if isinstance(delta, TextDelta):
                    parts.append(cleaner.feed_text(delta.text)[0])
                    length += len(parts[-1])
                    thought += len(delta.text)
                elif isinstance(delta, ThinkingDelta):
                    thought += len(delta.text)
                elif isinstance(delta, Finished):
                    parts.append(cleaner.finish()[0])
                    if ends is not None:
                        ends.append(delta)
            if length > enough or thought > enough + LONGEST_THOUGHT:
                break
    return "".join(parts)
