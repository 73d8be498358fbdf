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

import msgspec

from models_app.errors import ModelError, ServiceUnavailable
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import (
    ANY_OBJECT,
    Delta,
    ModelInfo,
    ModelRequest,
    Retrying,
    SchemaLeftOut,
    Warned,
)
from models_app.model_calls import CallHeaders
from models_app.retries import BACKOFFS, Retries
from models_app.vendors.inventory import VendorInventory
from models_app.vendors.vendor import KeyLookup, ModelFactory, Vendor

if TYPE_CHECKING:
    import httpx2

SILENCE_SECONDS = 300.0
CONNECT_SECONDS = 10.0
REFUSING_SECONDS = 600.0
"""Seconds for which a model counts as one that refuses schemas; then it is tried again."""

# By what vendors and servers answer: bad request, unprocessable content, not implemented.
_REFUSALS = frozenset({400, 422, 501})
_NO_SCHEMA = (
    "'{}' takes no JSON schema for answers of {}. It was asked for JSON in words, and its answer "
    "may not fit the schema."
)


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
    """

    def __init__(
        self,
        vendor: Vendor,
        *,
        silence_timeout: float = SILENCE_SECONDS,
        connect_timeout: float = CONNECT_SECONDS,
        key_of: KeyLookup = os.environ.get,
        call_headers: CallHeaders | None = None,
    ) -> None:
        self.vendor = vendor
        self._call_headers = call_headers
        self._silence_timeout = silence_timeout
        self._connect_timeout = connect_timeout
        self._key_of = key_of
        self._refusing: ExpiringCache[bool] = ExpiringCache(REFUSING_SECONDS)
        self._clients: _Clients | None = None

    @property
    def is_configured(self) -> bool:
        """Return whether there is a key, or none is needed."""
        return self.vendor.is_configured(self._key_of)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        """Send a request and yield batches of deltas.

        A request that fails before its first delta is retried (``Retrying``). If its answer schema
        is refused, it is sent without (``Warned``): the prompt must describe the format, too. So is
        one with tools where the model can't have both (``SchemaLeftOut``).

        Raises:
            ModelError: A subclass, before the first batch or between batches.
        """
        name = request.model
        is_fitted = request.answer_schema not in (None, ANY_OBJECT)
        in_words = is_fitted and self._refusing.get(name) is not None
        retries = Retries(BACKOFFS)
        while True:
            streaming = False
            try:
                asked = (
                    msgspec.structs.replace(request, answer_schema=None) if in_words else request
                )
                async with aclosing(await self._ask(asked)) as batches:
                    async for batch in batches:
                        if in_words and not streaming:
                            self._refusing.set(name, True)
                            warning = Warned(_NO_SCHEMA.format(self.vendor.name, name))
                            yield [SchemaLeftOut() if request.tools else warning]
                        streaming = True
                        yield batch
            except ModelError as error:
                if streaming:
                    raise
                if not in_words and self._was_sent_schema(asked) and _may_be_about_schema(error):
                    in_words = True
                    continue
                pause = retries.pause_after(error)
                notice = Retrying(error.message)
            else:
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

    async def _ask(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        """Return the batches of an answer, which the first of them asks for."""
        clients = await self._open()
        if clients.make_model is None:
            clients.make_model = await asyncio.to_thread(self._load, clients)
        from models_app.vendors.pydantic_models import answer  # noqa: PLC0415 - loaded already

        return answer(self.vendor, request, clients.make_model, clients.key)

    def _was_sent_schema(self, request: ModelRequest) -> bool:
        make = self._clients.make_model if self._clients is not None else None
        if make is None:
            return False
        from models_app.vendors.pydantic_models import is_sent_schema  # noqa: PLC0415 - loaded

        return is_sent_schema(self.vendor, request, make(request.model))

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


def _may_be_about_schema(error: ModelError) -> bool:
    """Return whether a refusal can be one of the schema; each server has words of its own."""
    is_refusal = isinstance(error, ServiceUnavailable) and not error.retryable
    return is_refusal and error.details.get("status") in _REFUSALS
