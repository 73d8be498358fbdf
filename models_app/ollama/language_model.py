"""Implements ``LanguageModel`` for Ollama.

Importing this module is cheap. The HTTP clients behind it (``transport`` for chat, the ollama
library for everything else) are imported and opened on first use, or before it by ``warm_up``.
"""

import asyncio
import importlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from models_app.errors import ContextOverflow, ModelError, ModelNotFound
from models_app.inserted_files import InsertedFiles, LargeBody
from models_app.language_model import (
    Delta,
    ModelInfo,
    ModelRequest,
    Retrying,
    SchemaLeftOut,
    WindowGrown,
)
from models_app.model_calls import CallHeaders
from models_app.ollama import errors, wire
from models_app.ollama.host import (
    CONNECT_SECONDS,
    DEFAULT_HOST,
    SILENCE_SECONDS,
    parse_host,
)
from models_app.ollama.inventory import ModelInventory
from models_app.ollama.replies import ReplyParser
from models_app.retries import Retries
from models_app.window_sizes import fit, safe_limit
from sessions_app.keep_alive import KeepAlive

if TYPE_CHECKING:
    from models_app.ollama.clients import AsyncOllamaClient
    from models_app.ollama.loaded_models import LoadedModels
    from models_app.ollama.transport import OllamaTransport, Reply

_ROOM_FOR_AN_ANSWER = 1.1
_LIBRARY_SECONDS = 30.0
_MAX_ANSWER_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Clients:
    """The open clients, and the event loop they belong to."""

    loop: asyncio.AbstractEventLoop
    transport: "OllamaTransport"
    loaded: "LoadedModels"
    library: "AsyncOllamaClient | None" = None
    inventory: ModelInventory | None = None


class OllamaLanguageModel:
    """The models of one Ollama server; implements ``LanguageModel``.

    Args:
        host: The server's URL; may hold credentials.
        silence_timeout: Seconds without a byte after which an answer counts as lost.
        connect_timeout: The timeout of connecting, in seconds.
        call_headers: Returns further headers of a model call; None for none.
        keep_alive: How long models stay loaded after a request that does not say.
    """

    def __init__(
        self,
        host: str = DEFAULT_HOST,
        *,
        silence_timeout: float = SILENCE_SECONDS,
        connect_timeout: float = CONNECT_SECONDS,
        call_headers: CallHeaders | None = None,
        keep_alive: KeepAlive | None = None,
    ) -> None:
        self._call_headers = call_headers
        self._keep_alive = keep_alive
        self._given_host = host
        self._host = parse_host(host)
        self._silence_timeout = silence_timeout
        self._connect_timeout = connect_timeout
        self._clients: _Clients | None = None

    @property
    def public_host(self) -> str:
        """The server's URL without credentials, for people to see."""
        return self._host.url

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        """Send a request and yield batches of deltas, one batch for each network read.

        A request that fails before its first delta is retried (``Retrying``); one that does not fit
        is sent once more with a larger context window if the model has one (``WindowGrown``).
        An answer schema is not sent with tools (``SchemaLeftOut``).

        Raises:
            ModelError: A subclass, before the first batch or between batches.
        """
        if request.answer_schema is not None and request.tools:
            request = msgspec.structs.replace(request, answer_schema=None)
            yield [SchemaLeftOut()]
        recovery: _Recovery | None = None
        window = request.context_window
        while True:
            parser = ReplyParser(request.model)
            reply: Reply | None = None
            streaming = False
            feeder: _SinkFeeder | None = None
            try:
                reply = await self._ask(request, window)
                while True:
                    await reply.readable()
                    batch = _next_batch(feeder, reply, parser)
                    if batch:
                        streaming = True
                        yield batch
                        if feeder is None and request.sink is not None:
                            feeder = _SinkFeeder(reply, parser, request.sink)
                            reply.set_data_callback(feeder.feed)
                    if parser.failure is not None:
                        raise parser.failure
                    if parser.finished:
                        return
            except ModelError as error:
                unreadable = errors.unreadable_call(error) if request.tools else None
                if unreadable is not None:
                    raise unreadable from error
                if streaming:
                    raise
                recovery = recovery or _Recovery(self, request)
                notice = await recovery.after(error)
                window = recovery.window
            finally:
                if reply is not None:
                    await reply.aclose(complete=parser.finished)
            yield [notice]
            await asyncio.sleep(recovery.pause)

    def recall(self, model: str) -> ModelInfo | None:
        """Return the cached result of ``describe``, or None. Thread-safe."""
        clients = self._clients
        if clients is None or clients.inventory is None:
            return None
        return clients.inventory.recall(model)

    async def describe(self, model: str) -> ModelInfo:
        """Return a model's facts; asks the server at most once a minute.

        Raises:
            ModelNotFound: The server does not have it, or it can't chat.
            ModelError: The server can't be asked.
        """
        return await (await self._inventory()).describe(model)

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that can chat, in the server's order.

        Raises:
            ModelError: The server can't be asked.
        """
        return await (await self._inventory()).list()

    async def loaded_models(self) -> "LoadedModels":
        """Return what is known of the models that the server has loaded."""
        return (await self._open()).loaded

    async def ask(self, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Return the server's answer at one of its paths, in JSON.

        Args:
            path: ``/api/ps``, or one of ``transport.PATHS``.
            body: The request, with its ``model``; None for the first path.

        Raises:
            ModelError: The server can't be asked, or refuses.
        """
        transport = (await self._open()).transport
        if body is None:
            return await transport.running()
        data = wire.encode_body(body)
        reply = await transport.chat(data, model=str(body.get("model")), path=path)
        return await reply.read_whole(_MAX_ANSWER_BYTES)

    async def ping(self) -> bool:
        """Return whether the server answers within a second."""
        return await (await self._open()).transport.ping()

    async def warm_up(self) -> None:
        """Import and open the clients. Called once the server listens."""
        await self._open()
        await self._inventory()

    async def aclose(self) -> None:
        """Close every connection. Using the model again opens new ones."""
        clients, self._clients = self._clients, None
        if clients is None:
            return
        await clients.loaded.aclose()
        if clients.inventory is not None:
            await clients.inventory.aclose()
        if clients.library is not None:
            await clients.library.close()
        await clients.transport.aclose()

    async def _ask(self, request: ModelRequest, window: int | None) -> "Reply":
        if self._keep_alive is not None and request.options.get("keep_alive") is None:
            options = {**request.options, "keep_alive": self._keep_alive}
            request = msgspec.structs.replace(request, options=options)
        body = _encoded(request, window)
        clients = self._clients
        if clients is None or clients.loop is not asyncio.get_running_loop():
            clients = await self._open()
        try:
            reply = await clients.transport.chat(body, model=request.model)
        except ModelNotFound:
            if clients.inventory is not None:
                clients.inventory.forget(request.model)
            raise
        clients.loaded.note(request.model, window)
        return reply

    async def _open(self) -> _Clients:
        """Return the clients of the running event loop, opening them on first use."""
        loop = asyncio.get_running_loop()
        if self._clients is not None and self._clients.loop is loop:
            return self._clients
        # Imports read files, which must not block the loop.
        module = await asyncio.to_thread(importlib.import_module, "models_app.ollama.transport")
        loaded = await asyncio.to_thread(importlib.import_module, "models_app.ollama.loaded_models")
        if self._clients is None or self._clients.loop is not loop:
            transport = module.OllamaTransport(
                self._host,
                silence_timeout=self._silence_timeout,
                connect_timeout=self._connect_timeout,
                call_headers=self._call_headers,
            )
            self._clients = _Clients(loop, transport, loaded.LoadedModels(transport.running))
        return self._clients

    async def _inventory(self) -> ModelInventory:
        clients = await self._open()
        if clients.inventory is None:
            library = await asyncio.to_thread(self._make_library, clients.transport)
            if clients.inventory is None:
                clients.library = library
                clients.inventory = ModelInventory(library)
        return clients.inventory

    def _make_library(self, transport: "OllamaTransport") -> "AsyncOllamaClient":
        """Create the library's client; loads certificates, so it runs in a thread."""
        from models_app.ollama.clients import AsyncOllamaClient  # noqa: PLC0415 - heavy

        return AsyncOllamaClient(
            host=self._given_host, silence_timeout=_LIBRARY_SECONDS, stream_transport=transport
        )


class _SinkFeeder:
    """Passes arriving deltas to a request's sink, and keeps a batch that the sink refuses.

    Attributes:
        has_leftover: Whether there is such a batch, or an error, which precedes newer data.
    """

    __slots__ = ("_batch", "_error", "_parser", "_read", "_sink", "has_leftover")

    def __init__(
        self,
        reply: "Reply",
        parser: ReplyParser,
        sink: Callable[[Sequence[Delta]], bool],
    ) -> None:
        self._read = reply.read_arrived
        self._parser = parser
        self._sink = sink
        self._batch: Sequence[Delta] = ()
        self._error: Exception | None = None
        self.has_leftover = False

    def feed(self) -> bool:
        """Read and pass on what has arrived; return False if the generator must take over."""
        parser = self._parser
        try:
            batch = parser.feed(self._read())
            if parser.failure is None and not parser.finished and (not batch or self._sink(batch)):
                return True
            self._batch = batch
        except Exception as error:  # noqa: BLE001 - raised by the generator, not in the event loop
            self._error = error
        self.has_leftover = True
        return False

    def leftover(self) -> Sequence[Delta]:
        """Return the refused batch, once.

        Raises:
            Exception: Reading or parsing the data failed.
        """
        self.has_leftover = False
        batch, self._batch = self._batch, ()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return batch


def _next_batch(feeder: _SinkFeeder | None, reply: "Reply", parser: ReplyParser) -> Sequence[Delta]:
    if feeder is not None and feeder.has_leftover:
        return feeder.leftover()
    data = reply.read_available()
    return parser.feed(data) if data else parser.end()


class _Recovery:
    """Decides how a request that failed before its first delta is sent again.

    Attributes:
        window: The context window of the next attempt.
        pause: Seconds to wait before it.
    """

    def __init__(self, ollama: OllamaLanguageModel, request: ModelRequest) -> None:
        self._ollama = ollama
        self._model = request.model
        self._retries = Retries()
        self._may_grow = not request.keeps_window
        self.window = request.context_window
        self.pause = 0.0

    async def after(self, error: ModelError) -> Delta:
        """Prepare the next attempt and return the delta that announces it, or raise the error."""
        if isinstance(error, ContextOverflow) and self._may_grow:
            self._may_grow = False
            self.window = await self._larger_window(error)
            self.pause = 0.0
            return WindowGrown(self.window)
        self.pause = self._retries.pause_after(error)
        return Retrying(error.message)

    async def _larger_window(self, overflow: ContextOverflow) -> int:
        """Return a window that holds the request, or raise the overflow if the model has none."""
        needed = overflow.details.get("n_prompt_tokens")
        if needed is None:
            raise overflow
        try:
            longest = (await self._ollama.describe(self._model)).context_length
        except ModelError as error:
            raise overflow from error
        window = window_for(needed, longest)
        if window is None or (self.window is not None and window <= self.window):
            raise overflow
        return window


def _encoded(request: ModelRequest, window: int | None) -> bytes | LargeBody:
    if not request.files:
        return wire.encode_request(request, window)
    files = InsertedFiles(request.files)
    request = msgspec.structs.replace(request, files=files.stand_ins)
    return files.body(wire.encode_request(request, window))


def window_for(prompt_tokens: int, context_length: int | None) -> int | None:
    """Return the context window for a prompt of this many tokens; None if the model has none.

    The window is the next step with room for an answer, and at most the safe limit.
    """
    if context_length is None:
        return None
    window = fit(int(prompt_tokens * _ROOM_FOR_AN_ANSWER), safe_limit(context_length))
    return window if window > prompt_tokens else None
