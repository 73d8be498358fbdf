"""Implements ``LanguageModel`` for Anthropic, OpenAI, Google, OpenRouter and compatible servers.

Importing this module is cheap. A thread imports pydantic-ai and the vendor's SDK (one to two
seconds) on the first request to a vendor, and the HTTP client on the first look at its models: a
server that uses Ollama alone imports none of them.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs

from models_app.errors import ModelError
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import Delta, ModelInfo, ModelRequest, PromptCache, Retrying
from models_app.model_calls import CallHeaders, current_caller
from models_app.retries import Retries
from models_app.vendors.inventory import VendorInventory
from models_app.vendors.refusals import PARTS, Attempt, RequestPart
from models_app.vendors.vendor import KeyLookup, ModelFactory, Vendor
from sessions_app.variants import answer_start

if TYPE_CHECKING:
    import httpx2

SILENCE_SECONDS = 300.0
CONNECT_SECONDS = 10.0
REFUSING_SECONDS = 600.0
"""Seconds for which a refused part is left out of a model's requests; then it is tried again."""


@dataclass(slots=True)
class _Clients:
    """The open clients, and the event loop they belong to."""

    loop: asyncio.AbstractEventLoop
    http: "httpx2.AsyncClient"
    inventory: VendorInventory
    key: str | None = field(repr=False)
    make_model: ModelFactory | None = None


class VendorLanguageModel:
    """The models of one vendor; implements ``LanguageModel``.

    Args:
        vendor: The vendor.
        silence_timeout: Seconds without a byte after which an answer counts as lost.
        connect_timeout: The timeout of connecting, in seconds.
        key_of: Looks up the value of a key's variable; in the environment by default.
        call_headers: Returns further headers of a model call; None for none.
        prompt_cache: How long conversations are kept in the vendor's cache, unless a request's
            option ``cache`` differs.
    """

    def __init__(
        self,
        vendor: Vendor,
        *,
        silence_timeout: float = SILENCE_SECONDS,
        connect_timeout: float = CONNECT_SECONDS,
        key_of: KeyLookup = os.environ.get,
        call_headers: CallHeaders | None = None,
        prompt_cache: PromptCache = "5m",
    ) -> None:
        self.vendor = vendor
        self._call_headers = call_headers
        self._silence_timeout = silence_timeout
        self._connect_timeout = connect_timeout
        self._prompt_cache = prompt_cache
        self._key_of = key_of
        self._refusing: ExpiringCache[bool] = ExpiringCache(REFUSING_SECONDS)
        self._clients: _Clients | None = None

    @property
    def is_configured(self) -> bool:
        """Return whether there is a key, or none is needed."""
        return self.vendor.is_configured(self._key_of)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        """Send a request and yield batches of deltas.

        A request that fails before its first delta is retried (``Retrying``). If a part of it is
        refused, it is sent without (``Warned``), as ``refusals`` declares. Without its answer
        schema, the prompt must describe the format, too.

        Raises:
            ModelError: A subclass, before the first batch or between batches.
        """
        options = {"cache": self._prompt_cache, **request.options}
        request = structs.replace(request, options=options)
        attempt = Attempt(part for part in PARTS if self._refusing.get(_key(part, request)))
        retries = Retries()
        while True:
            streaming = False
            try:
                async with aclosing(await self._ask(request, attempt)) as batches:
                    async for batch in batches:
                        if not streaming:
                            self._remember(request, attempt)
                        streaming = True
                        yield batch
            except ModelError as error:
                if streaming:
                    raise
                if (next_attempt := attempt.after(error)) is not None:
                    attempt = next_attempt
                    continue
                pause = retries.pause_after(error)
                notice = Retrying(error.message)
            else:
                self._remember(request, attempt)  # and what the library left out by itself
                return
            yield [notice]
            await asyncio.sleep(pause)

    def recall(self, model: str) -> ModelInfo | None:
        """Return the cached result of ``describe``, or None. Thread-safe."""
        clients = self._clients
        return clients.inventory.recall(model) if clients is not None else None

    async def describe(self, model: str) -> ModelInfo:
        """Return a model's facts; asks the vendor at most once in ten minutes.

        Raises:
            Unauthorized: There is no key.
            ModelNotFound: The vendor does not have it, or it can't chat.
            ModelError: The vendor can't be asked.
        """
        return await (await self._open()).inventory.describe(model)

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that can chat, in the vendor's order.

        Raises:
            Unauthorized: There is no key.
            ModelError: The vendor can't be asked.
        """
        return await (await self._open()).inventory.list()

    async def aclose(self) -> None:
        """Close every connection. Using the model again opens new ones."""
        clients, self._clients = self._clients, None
        if clients is not None:
            await clients.http.aclose()

    async def _ask(
        self, request: ModelRequest, attempt: Attempt
    ) -> AsyncGenerator[Sequence[Delta], None]:
        """Return the batches of an answer, which the first of them asks for."""
        clients = await self._open()
        if clients.make_model is None:
            clients.make_model = await asyncio.to_thread(self._load, clients)
        from models_app.vendors.pydantic_models import answer  # noqa: PLC0415 - loaded already

        return answer(self.vendor, request, clients.make_model, clients.key, attempt)

    def _remember(self, request: ModelRequest, attempt: Attempt) -> None:
        for part in attempt.refused:
            if key := _key(part, request):
                self._refusing.set(key, True)

    def _load(self, clients: _Clients) -> ModelFactory:
        """Import the modules that a request needs; runs in a thread."""
        from models_app.vendors.pydantic_models import open_models  # noqa: PLC0415 - two seconds

        self.vendor.translator()
        return open_models(self.vendor, clients.key, clients.http)

    async def _open(self) -> _Clients:
        """Return the clients of the running event loop, opening them on first use.

        Raises:
            Unauthorized: There is no key.
        """
        loop = asyncio.get_running_loop()
        if self._clients is not None and self._clients.loop is loop:
            return self._clients
        key = self.vendor.require_key(self._key_of)
        # Imports and certificates are read from files, which must not block the loop.
        http = await asyncio.to_thread(self._open_http)
        if self._clients is None or self._clients.loop is not loop:
            self._clients = _Clients(loop, http, VendorInventory(self.vendor, key, http), key)
        else:  # a concurrent call has opened them meanwhile
            await http.aclose()
        return self._clients

    def _open_http(self) -> "httpx2.AsyncClient":
        from models_app.vendors.http_client import open_client  # noqa: PLC0415 - slow

        return open_client(
            self.vendor,
            silence_timeout=self._silence_timeout,
            connect_timeout=self._connect_timeout,
            call_headers=self._call_headers,
        )


def _key(part: RequestPart, request: ModelRequest) -> str:
    """Return the key of a refusal, which an agent and its caller do not share; empty for none."""
    if not part.is_of_turn:
        return f"{part.name} {request.model}"
    caller, start = current_caller(), answer_start(request.messages)
    if caller is None or caller.turn_id is None:
        return ""
    question = request.messages[start - 1].message_id if start else ""
    return f"{part.name} {request.model} {caller.turn_id} {question}"
