"""Asks models for structured answers: JSON that fits a pydantic model."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from models_app.cleaning import StreamCleaner
from models_app.errors import SchemaNotSupported, ServiceUnavailable
from models_app.language_model import (
    Finished,
    LanguageModel,
    ModelRequest,
    Purpose,
    TextDelta,
    ThinkingDelta,
)
from models_app.model_calls import CallHeaders, ModelCallLog, ModelCallObserver
from sessions_app.keep_alive import KeepAlive
from sessions_app.messages import NO_EXTRA, Message, SystemMessage, UserMessage

if TYPE_CHECKING:
    from models_app.ollama.structured import AsyncInstructorOllamaClient

ATTEMPTS = 3
LONGEST_ANSWER = 100_000
"""Characters of JSON; a model caught in a loop would write forever."""

LONGEST_THOUGHT = 100_000
"""Characters of reasoning before an answer, for the same reason."""

Form = TypeVar("Form", bound=BaseModel)
NoteWindow = Callable[[str, int | None], Awaitable[None]]


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


class StructuredModels:
    """Asks Ollama's models through ollama-instructor, and all others through ``ask_for_json``.

    Args:
        resolve: Returns the language model that runs a model, and its name there.
        is_of_ollama: Returns whether a model's name means a model of Ollama.
        ollama_host: Ollama's URL.
        silence_timeout: The timeout of an answer of Ollama, in seconds.
        observer: Sees the calls of Ollama's models; the others are observed already.
        call_headers: Returns further headers of such a call; None for none.
        note_window: Told of the window that Ollama accepted for a model.
        keep_alive: How long Ollama's models stay loaded where a question does not say.
    """

    def __init__(
        self,
        resolve: Callable[[str], tuple[LanguageModel, str]],
        *,
        is_of_ollama: Callable[[str], bool],
        ollama_host: str,
        silence_timeout: float,
        observer: ModelCallObserver | None = None,
        call_headers: CallHeaders | None = None,
        note_window: NoteWindow | None = None,
        keep_alive: KeepAlive | None = None,
    ) -> None:
        self._keep_alive = keep_alive
        self._call_headers = call_headers
        self._note_window = note_window
        self._resolve = resolve
        self._is_of_ollama = is_of_ollama
        self._observer = observer or ModelCallLog()
        self._ollama_host = ollama_host
        self._silence_timeout = silence_timeout
        self._client: AsyncInstructorOllamaClient | None = None

    async def aclose(self) -> None:
        """Close the connections; the next question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def ask(self, model: str, question: Question, form: type[Form]) -> Form:
        """Return the model's answer, validated.

        Raises:
            ModelNotFound: There is no such model.
            ModelError: The provider can't be asked, or gave no answer of that form.
        """
        language_model, name = self._resolve(model)
        if self._is_of_ollama(model):
            return await self._ask_ollama(name, question, form)
        provider = model.partition(":")[0]
        return await ask_for_json(language_model, name, question, form, provider=provider)

    async def _ask_ollama(self, name: str, question: Question, form: type[Form]) -> Form:
        if (client := self._client) is None:
            opened = await asyncio.to_thread(self._open_client)
            client = self._client = self._client or opened
        messages = [
            {"role": "system", "content": question.instructions},
            {"role": "user", "content": question.text},
        ]
        keep_alive = self._keep_alive if question.keep_alive is None else question.keep_alive
        options = {
            "num_ctx": question.context_window,
            "num_predict": question.answer_tokens,
            "keep_alive": keep_alive,
        }
        response = await client.structured_response(
            name,
            messages,
            form,
            options={key: value for key, value in options.items() if value is not None},
            purpose=question.purpose,
        )
        if self._note_window is not None:
            await self._note_window(name, question.context_window)
        return form.model_validate_json(response.message.content or "")

    def _open_client(self) -> "AsyncInstructorOllamaClient":
        """Import and open Ollama's client, which reads files (modules, certificates)."""
        from models_app.ollama.structured import AsyncInstructorOllamaClient  # noqa: PLC0415

        return AsyncInstructorOllamaClient(
            self._ollama_host,
            silence_timeout=self._silence_timeout,
            observer=self._observer,
            call_headers=self._call_headers,
        )


async def ask_for_json(
    language_model: LanguageModel,
    name: str,
    question: Question,
    form: type[Form],
    *,
    provider: str,
) -> Form:
    """Ask any model to answer in JSON, and find the JSON in its answer.

    The prompt contains the schema. The first attempt also sends it as the provider's structured
    output; if that fails, or the answer is invalid, only the prompt is used.

    Raises:
        ModelError: The provider can't be asked, or gave no answer of that form (retryable).
    """
    schema = form.model_json_schema()
    instructions = (
        f"{question.instructions}\n\nAnswer with one JSON object and nothing else. "
        f"It must fit this JSON schema:\n{msgspec.json.encode(schema).decode()}"
    )
    messages: Sequence[Message] = [
        SystemMessage(content=instructions, message_id="", timestamp=""),
        UserMessage(content=question.text, message_id="", timestamp=""),
    ]
    plain = ModelRequest(
        model=name,
        messages=messages,
        context_window=question.context_window,
        options=NO_EXTRA if question.keep_alive is None else {"keep_alive": question.keep_alive},
        purpose=question.purpose,
    )
    constrained = msgspec.structs.replace(plain, answer_schema=schema)
    for request in [constrained, *[plain] * (ATTEMPTS - 1)]:
        try:
            text = await whole_answer(language_model, request, enough=LONGEST_ANSWER)
        except (ServiceUnavailable, SchemaNotSupported):  # some servers fail with any status
            if request is constrained:
                continue
            raise
        try:
            return form.model_validate_json(text[text.find("{") : text.rfind("}") + 1])
        except ValidationError:
            continue
    raise ServiceUnavailable(
        f"Model '{name}' did not give an answer of the form {form.__name__}.",
        retryable=True,
        provider=provider,
        model=name,
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
