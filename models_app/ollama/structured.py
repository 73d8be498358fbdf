"""Asks Ollama's models for structured answers: JSON that fits a pydantic model."""

# private: ollama.AsyncClient.{_client,_request}; see clients.py.

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import ollama
from ollama_instructor import OllamaInstructorAsync
from pydantic import BaseModel, ValidationError

from models_app.errors import ContextOverflow, ModelError, OllamaError
from models_app.language_model import Finished, Purpose, Think
from models_app.model_calls import (
    CallHeaders,
    CallInProgress,
    ModelCallLog,
    ModelCallObserver,
)
from models_app.ollama.conversion import (
    ChatMessageLike,
    http_options,
    library_body,
    parse_piece,
    typed_errors,
)
from models_app.ollama.host import CONNECT_SECONDS, SILENCE_SECONDS, OllamaHost, parse_host
from models_app.ollama.lines import MAX_LINE_BYTES
from models_app.ollama.loop_transport import LoopTransport
from models_app.ollama.transport import OllamaTransport
from models_app.ollama.wire import encode_body
from models_app.window_sizes import fills_window


class AsyncInstructorOllamaClient(OllamaInstructorAsync):
    """A client for structured output.

    Args:
        host: The server's URL, or ``name[:port]``; None: the library's default.
        silence_timeout: The timeout of an answer, in seconds.
        connect_timeout: The timeout of connecting, in seconds.
        observer: Sees the calls of ``structured_response``; None logs them.
        call_headers: Returns further headers of a model call; None for none.
    """

    def __init__(
        self,
        host: str | None = None,
        *,
        silence_timeout: float = SILENCE_SECONDS,
        connect_timeout: float = CONNECT_SECONDS,
        observer: ModelCallObserver | None = None,
        call_headers: CallHeaders | None = None,
    ) -> None:
        self._call_headers = call_headers
        self._observer = observer or ModelCallLog()
        address = parse_host(host) if host else None
        super().__init__(
            address.url if address else None,
            **http_options(address, silence_timeout, connect_timeout),
        )
        self._transport = LoopTransport(
            partial(
                OllamaTransport,
                OllamaHost(self.public_host),
                silence_timeout=silence_timeout,
                connect_timeout=connect_timeout,
                authorization=self._client.headers.get("authorization"),
                call_headers=call_headers,
            )
        )

    @property
    def public_host(self) -> str:
        """The server's URL without credentials."""
        return str(self._client.base_url).rstrip("/")

    async def close(self) -> None:
        """Close every connection that this client opened."""
        await super().close()  # type: ignore[no-untyped-call]
        await self._transport.aclose()

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
                ollama.ChatResponse,
                "POST",
                "/api/chat",
                content=content,
                headers=self._call_headers() if self._call_headers is not None else None,
                stream=True,
            )
        reply = await self._transport.get().chat(content, model=model)
        response = parse_piece(await reply.read_whole(MAX_LINE_BYTES), model)
        _require_room(response, body.get("options") or {})
        return response

    async def structured_response(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any] | ollama.Message],
        format: type[BaseModel],  # noqa: A002 - the name that Ollama has for it
        *,
        options: Mapping[str, Any] | None = None,
        attempts: int = 3,
        purpose: Purpose = "structured",
    ) -> ollama.ChatResponse:
        """Ask for an answer whose content is JSON that ``format`` accepts.

        Args:
            model: The model's name.
            messages: The conversation, oldest first.
            format: The required format of the answer.
            options: Sampling options, ``num_ctx`` among them.
            attempts: How often to ask until an answer fits.
            purpose: The purpose of the call, for the observer.

        Raises:
            OllamaError: No answer fitted (retryable), or the server refused.
            ModelError: Other subclasses, as for any chat.
        """
        mismatch: ValidationError | None = None
        for _ in range(attempts):
            try:
                response = await self._ask_once(model, messages, format, options, purpose)
                format.model_validate_json(response.message.content or "")
            except ValidationError as error:
                mismatch = error
            else:
                return response
        raise OllamaError(
            f"Model '{model}' did not give an answer of the form {format.__name__}.",
            retryable=True,
            model=model,
        ) from mismatch

    async def _ask_once(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any] | ollama.Message],
        format: type[BaseModel],  # noqa: A002
        options: Mapping[str, Any] | None,
        purpose: Purpose,
    ) -> ollama.ChatResponse:
        call = CallInProgress(
            self._observer,
            provider="ollama",
            model=model,
            purpose=purpose,
            url=self.public_host,
            characters=sum(len(message.get("content") or "") for message in messages),
        )
        async with call:
            with typed_errors(self.public_host, model, passing=(ModelError,)):
                response: ollama.ChatResponse = await self.chat(
                    model, messages, format=_schema_of(format), options=options
                )
            call.finished = Finished(
                response.done_reason, response.prompt_eval_count, response.eval_count
            )
        if response.message.content is None:
            raise OllamaError(
                f"Model '{model}' answered without content.", retryable=True, model=model
            )
        return response


def _require_room(response: ollama.ChatResponse, options: Mapping[str, Any]) -> None:
    """Raise ``ContextOverflow`` for an answer that was cut by the end of the window."""
    prompt, answer, window = response.prompt_eval_count, response.eval_count, options.get("num_ctx")
    if response.done_reason == "length" and fills_window(prompt, answer, window):
        raise ContextOverflow(
            f"The prompt ({prompt} tokens) leaves no room for the answer in the context window "
            f"({window} tokens).",
            n_prompt_tokens=prompt,
        )


@lru_cache(maxsize=64)
def _schema_of(form: type[BaseModel]) -> Mapping[str, Any]:
    """Return a form's JSON schema, cached because making it takes longer than sending it."""
    return form.model_json_schema()
