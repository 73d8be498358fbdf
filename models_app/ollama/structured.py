"""Asks Ollama's models for structured answers: JSON that fits a pydantic model."""

# private: ollama.AsyncClient.{_client,_request}; see clients.py.

from collections.abc import Mapping, Sequence
from typing import Any

import ollama
from ollama_instructor import OllamaInstructorAsync
from pydantic import BaseModel, ValidationError

from models_app.errors import OllamaError
from models_app.language_model import Think
from models_app.ollama.conversion import (
    ChatMessageLike,
    ChatResponse,
    client_options,
    library_body,
    typed_errors,
)
from models_app.ollama.host import CONNECT_SECONDS, SILENCE_SECONDS
from models_app.ollama.wire import encode_body
from models_app.window_sizes import require_room


class AsyncInstructorOllamaClient(OllamaInstructorAsync):
    """A client for structured output.

    Args:
        host: The server's URL, or ``name[:port]``; None: the library's default.
        silence_timeout: The timeout of an answer, in seconds.
        connect_timeout: The timeout of connecting, in seconds.
    """

    def __init__(
        self,
        host: str | None = None,
        *,
        silence_timeout: float = SILENCE_SECONDS,
        connect_timeout: float = CONNECT_SECONDS,
    ) -> None:
        super().__init__(**client_options(host, silence_timeout, connect_timeout))

    @property
    def public_host(self) -> str:
        """The server's URL without credentials."""
        return str(self._client.base_url).rstrip("/")

    async def chat(  # type: ignore[override] # what ollama-instructor calls of it
        self,
        model: str,
        messages: Sequence[ChatMessageLike],
        *,
        stream: bool = False,
        think: Think | None = False,
        **more: Any,
    ) -> Any:
        """Chat like the library, but raise an error instead of truncating silently.

        Reasoning is off by default.

        Raises:
            ContextOverflow: The answer was cut at the end of the window: the prompt is too long.
        """
        body = library_body(
            model=model, messages=messages, tools=None, think=think, context_window=None, more=more
        )
        content = encode_body({**body, "stream": stream})
        if stream:
            return await self._request(
                ollama.ChatResponse, "POST", "/api/chat", content=content, stream=True
            )
        with typed_errors(self.public_host, model):
            response: ChatResponse = await self._request(
                ChatResponse, "POST", "/api/chat", content=content
            )
        require_room(
            response.done_reason,
            response.prompt_eval_count,
            response.eval_count,
            (body.get("options") or {}).get("num_ctx"),
        )
        return response

    async def structured_response(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any] | ollama.Message],
        format: type[BaseModel],  # noqa: A002 - the name that Ollama has for it
        *,
        options: Mapping[str, Any] | None = None,
        attempts: int = 3,
    ) -> ollama.ChatResponse:
        """Ask for an answer whose content is JSON that ``format`` accepts.

        Args:
            model: The model's name.
            messages: The conversation, oldest first.
            format: The required format of the answer.
            options: Sampling options, ``num_ctx`` among them.
            attempts: How often to ask until an answer fits.

        Raises:
            OllamaError: No answer fitted (retryable), or the server refused.
            ModelError: Other subclasses, as for any chat.
        """
        mismatch: ValidationError | None = None
        for _ in range(attempts):
            try:
                response: ollama.ChatResponse = await self.chat(
                    model, messages, format=format.model_json_schema(), options=options
                )
                if response.message.content is None:
                    raise OllamaError(
                        f"Model '{model}' answered without content.", retryable=True, model=model
                    )
                format.model_validate_json(response.message.content)
            except ValidationError as error:
                mismatch = error
            else:
                return response
        raise OllamaError(
            f"Model '{model}' did not give an answer of the form {format.__name__}.",
            retryable=True,
            model=model,
        ) from mismatch
