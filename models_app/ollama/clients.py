"""Extends the ollama library's clients, for Python programs: timeouts, typed errors, call ids.

What differs from the library's own clients: timeouts and connection limits are set, redirects and
proxy variables are not followed, ids of tool calls and nested tool schemas survive, the server
says so instead of truncating a conversation that is too long, and errors are ``ModelError``s.

Importing this module imports the library and httpx (about 200 ms): the server does it lazily.
"""

# private: ollama.Client.{_client,_request,_request_raw}. Price: this module and structured.py. Why:
# the library has no other way to its HTTP client, to what it leaves out of an answer, nor to send a
# body that it did not make itself.

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any

import ollama

from models_app.errors import ModelError
from models_app.language_model import ModelInfo, Think
from models_app.ollama import errors
from models_app.ollama.conversion import (
    ChatMessageLike,
    ChatResponse,
    ToolLike,
    client_options,
    join_pieces,
    library_body,
    typed_errors,
)
from models_app.ollama.host import CONNECT_SECONDS, SILENCE_SECONDS
from models_app.ollama.inventory import Tag, details_in, model_info, tags_in
from models_app.ollama.wire import encode_body

_PARALLEL_SHOWS = 4


class OllamaClient(ollama.Client):
    """A synchronous client.

    Args:
        host: The server's URL, or ``name[:port]``; None: the library's default.
        silence_timeout: Seconds without a byte after which an answer counts as lost.
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

    def list_models(self) -> list[ModelInfo]:
        """Return the models that can chat. One whose details fail is left out.

        Raises:
            ModelError: The list can't be loaded, or has no valid entry.
        """
        with typed_errors(self.public_host):
            listed = self._request_raw("GET", "/api/tags")  # type: ignore[no-untyped-call]
            tags = tags_in(listed.content)
        with ThreadPoolExecutor(_PARALLEL_SHOWS) as pool:
            return _able_to_chat(list(pool.map(self._info, tags)))

    def _info(self, tag: Tag) -> ModelInfo | ModelError:
        try:
            with typed_errors(self.public_host, tag.name):
                shown = self._request_raw(  # type: ignore[no-untyped-call]
                    "POST", "/api/show", json={"model": tag.name}
                )
            return model_info(tag.name, tag, details_in(shown.content))
        except ModelError as error:
            return error

    def show_model_details(self, name: str) -> ollama.ShowResponse:
        """Return a model's details.

        Raises:
            ModelNotFound: The server does not have it.
            ModelError: The server can't be asked.
        """
        with typed_errors(self.public_host, name):
            return self.show(name)

    def chat_stream(
        self,
        model: str,
        messages: Sequence[ChatMessageLike],
        tools: Sequence[ToolLike] | None = None,
        think: Think | None = None,
        context_window: int | None = None,
        **more: Any,
    ) -> Iterator[ChatResponse]:
        """Send a chat request and yield the pieces of the answer; the last has ``done``.

        Args:
            model: The model's name.
            messages: The conversation, oldest first.
            tools: The tools that the model may call.
            think: Whether and how hard to reason; None leaves it to the server.
            context_window: Tokens of context to reserve (``num_ctx``).
            more: Other keys of the request: ``options``, ``format``, ``keep_alive``, ...

        Raises:
            ModelError: A subclass; the server refused, or its answer broke off.
        """
        body = library_body(
            model=model,
            messages=messages,
            tools=tools,
            think=think,
            context_window=context_window,
            more=more,
        )
        finished = False
        with typed_errors(self.public_host, model):
            pieces = self._request(
                ChatResponse,
                "POST",
                "/api/chat",
                content=encode_body(body),
                stream=True,
            )
            for piece in pieces:
                finished = bool(piece.done)
                yield piece
        if not finished:
            raise errors.interrupted("it ended without its final line.")

    def chat(  # type: ignore[override] # never streams; the library's has `stream`
        self,
        model: str,
        messages: Sequence[ChatMessageLike],
        tools: Sequence[ToolLike] | None = None,
        think: Think | None = None,
        context_window: int | None = None,
        **more: Any,
    ) -> ChatResponse:
        """Send a chat request and return the whole answer; see ``chat_stream``."""
        return join_pieces(
            list(self.chat_stream(model, messages, tools, think, context_window, **more))
        )


class AsyncOllamaClient(ollama.AsyncClient):
    """An asynchronous client.

    Args:
        host: The server's URL, or ``name[:port]``; None: the library's default.
        silence_timeout: Seconds without a byte after which an answer counts as lost.
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

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that can chat. One whose details fail is left out.

        Raises:
            ModelError: The list can't be loaded, or has no valid entry.
        """
        with typed_errors(self.public_host):
            listed = await self._request_raw("GET", "/api/tags")  # type: ignore[no-untyped-call]
            tags = tags_in(listed.content)
        places = asyncio.Semaphore(_PARALLEL_SHOWS)
        return _able_to_chat(await asyncio.gather(*(self._info(tag, places) for tag in tags)))

    async def _info(self, tag: Tag, places: asyncio.Semaphore) -> ModelInfo | ModelError:
        try:
            async with places:
                with typed_errors(self.public_host, tag.name):
                    shown = await self._request_raw(  # type: ignore[no-untyped-call]
                        "POST", "/api/show", json={"model": tag.name}
                    )
            return model_info(tag.name, tag, details_in(shown.content))
        except ModelError as error:
            return error

    async def show_model_details(self, name: str) -> ollama.ShowResponse:
        """Return a model's details.

        Raises:
            ModelNotFound: The server does not have it.
            ModelError: The server can't be asked.
        """
        with typed_errors(self.public_host, name):
            return await self.show(name)

    async def chat_stream(
        self,
        model: str,
        messages: Sequence[ChatMessageLike],
        tools: Sequence[ToolLike] | None = None,
        think: Think | None = None,
        context_window: int | None = None,
        **more: Any,
    ) -> AsyncGenerator[ChatResponse, None]:
        """Send a chat request and yield the pieces of the answer; the last has ``done``.

        Close the generator (``contextlib.aclosing``) to stop the model before its end.

        Arguments as of ``OllamaClient.chat_stream``.

        Raises:
            ModelError: A subclass; the server refused, or its answer broke off.
        """
        body = library_body(
            model=model,
            messages=messages,
            tools=tools,
            think=think,
            context_window=context_window,
            more=more,
        )
        finished = False
        with typed_errors(self.public_host, model):
            stream: Any = await self._request(
                ChatResponse,
                "POST",
                "/api/chat",
                content=encode_body(body),
                stream=True,
            )
            async with aclosing(stream) as pieces:
                async for piece in pieces:
                    finished = bool(piece.done)
                    yield piece
        if not finished:
            raise errors.interrupted("it ended without its final line.")

    async def chat(  # type: ignore[override] # never streams; the library's has `stream`
        self,
        model: str,
        messages: Sequence[ChatMessageLike],
        tools: Sequence[ToolLike] | None = None,
        think: Think | None = None,
        context_window: int | None = None,
        **more: Any,
    ) -> ChatResponse:
        """Send a chat request and return the whole answer; see ``chat_stream``."""
        pieces = self.chat_stream(model, messages, tools, think, context_window, **more)
        return join_pieces([piece async for piece in pieces])


def _able_to_chat(answers: Sequence[ModelInfo | ModelError]) -> list[ModelInfo]:
    """Return the models that can chat; raise the first error if no model has answered."""
    infos = [answer for answer in answers if isinstance(answer, ModelInfo)]
    failures = [answer for answer in answers if isinstance(answer, ModelError)]
    if failures and not infos:
        raise failures[0]
    return [info for info in infos if info.can_chat]
