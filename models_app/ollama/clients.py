"""Extends the ollama library's clients, for Python programs: timeouts, typed errors, call ids.

What differs from the library's own clients: timeouts and connection limits are set, redirects and
proxy variables are not followed, ids of tool calls and nested tool schemas survive, the server
says so instead of truncating a conversation that is too long, and errors are ``ModelError``s.

Importing this module imports the library and httpx (about 200 ms): the server does it lazily.
"""

# private: ollama.Client.{_client,_request}. Price: this module and structured.py. Why: the library
# has no other way to its HTTP client, nor to send a body that it did not make itself.

from collections.abc import AsyncGenerator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import ollama

from models_app.errors import ModelError
from models_app.language_model import ModelInfo, Think
from models_app.ollama import errors
from models_app.ollama.conversion import (
    ChatMessageLike,
    ChatResponse,
    ShownModel,
    ToolLike,
    details_from,
    http_options,
    join_pieces,
    library_body,
    parse_piece,
    tags_from,
    typed_errors,
)
from models_app.ollama.host import (
    CONNECT_SECONDS,
    SILENCE_SECONDS,
    OllamaHost,
    parse_host,
)
from models_app.ollama.inventory import (
    ModelDetails,
    ModelInventory,
    Tag,
    model_info,
)
from models_app.ollama.lines import MAX_LINE_BYTES, LineSplitter
from models_app.ollama.loop_transport import LoopTransport
from models_app.ollama.transport import OllamaTransport
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
        address = parse_host(host) if host else None
        super().__init__(
            address.url if address else None,
            **http_options(address, silence_timeout, connect_timeout),
        )

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
            tags = tags_from(self.list())

        def info_or_error(tag: Tag) -> ModelInfo | ModelError:
            try:
                return model_info(tag.name, tag, details_from(self.show_model_details(tag.name)))
            except ModelError as error:
                return error

        with ThreadPoolExecutor(_PARALLEL_SHOWS) as pool:
            answers = list(pool.map(info_or_error, tags))
        infos = [answer for answer in answers if isinstance(answer, ModelInfo)]
        failures = [answer for answer in answers if isinstance(answer, ModelError)]
        if failures and not infos:
            raise failures[0]
        return [info for info in infos if info.can_chat]

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
    """An asynchronous client; its chat uses ``OllamaTransport``.

    Args:
        host: The server's URL, or ``name[:port]``; None: the library's default.
        silence_timeout: Seconds without a byte after which an answer counts as lost.
        connect_timeout: The timeout of connecting, in seconds.
        stream_transport: Connections to share for chat; its owner closes it.
    """

    def __init__(
        self,
        host: str | None = None,
        *,
        silence_timeout: float = SILENCE_SECONDS,
        connect_timeout: float = CONNECT_SECONDS,
        stream_transport: OllamaTransport | None = None,
    ) -> None:
        address = parse_host(host) if host else None
        super().__init__(
            address.url if address else None,
            **http_options(address, silence_timeout, connect_timeout),
        )
        self._shared = stream_transport
        self._own = LoopTransport(
            partial(
                OllamaTransport,
                OllamaHost(self.public_host),
                silence_timeout=silence_timeout,
                connect_timeout=connect_timeout,
                authorization=self._client.headers.get("authorization"),
            )
        )

    @property
    def public_host(self) -> str:
        """The server's URL without credentials."""
        return str(self._client.base_url).rstrip("/")

    async def close(self) -> None:
        """Close every connection that this client opened."""
        await super().close()  # type: ignore[no-untyped-call]
        await self._own.aclose()

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that can chat. One whose details fail is left out.

        Raises:
            ModelError: The list can't be loaded, or has no valid entry.
        """
        return await ModelInventory(self).list()

    async def show_model_details(self, name: str) -> ollama.ShowResponse:
        """Return a model's details.

        Raises:
            ModelNotFound: The server does not have it.
            ModelError: The server can't be asked.
        """
        with typed_errors(self.public_host, name):
            return await self.show(name)

    async def fetch_tags(self) -> Sequence[Tag]:
        """Return the server's list (for ``ModelInventory``)."""
        with typed_errors(self.public_host):
            return tags_from(await self.list())

    async def fetch_details(self, name: str) -> ModelDetails:
        """Return the server's details of a model (for ``ModelInventory``)."""
        with typed_errors(self.public_host, name):
            shown = await self._request(ShownModel, "POST", "/api/show", json={"model": name})
        return details_from(shown)

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
        body = encode_body(
            library_body(
                model=model,
                messages=messages,
                tools=tools,
                think=think,
                context_window=context_window,
                more=more,
            )
        )
        transport = self._shared or self._own.get()
        reply = await transport.chat(body, model=model)
        lines = LineSplitter()
        finished = False
        try:
            while not finished:
                await reply.readable()
                data = reply.read_available()
                whole = lines.push(data) if data else lines.take_rest()
                if lines.held_bytes > MAX_LINE_BYTES:
                    raise errors.line_too_long(MAX_LINE_BYTES)
                for line in whole.split(b"\n"):
                    if line.strip():
                        piece = parse_piece(line, model)
                        finished = bool(piece.done)
                        yield piece
                if not data and not finished:
                    raise errors.interrupted("it ended without its final line.")
        finally:
            await reply.aclose(complete=finished)

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
