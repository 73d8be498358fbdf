"""Caches a vendor's models and their capabilities. Uses plain HTTP, without an SDK.

OpenRouter, Google and Anthropic state a model's context length and capabilities; OpenAI and most
compatible servers list names alone, and then every capability is assumed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from models_app.error_words import error_message
from models_app.errors import ModelError, ModelNotFound
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import ModelInfo
from models_app.vendors.errors import (
    error_from_refusal,
    interrupted,
    invalid_answer,
    redact_keys,
    unreachable,
)
from models_app.vendors.vendor import ALL_CAPABILITIES, Vendor

if TYPE_CHECKING:
    import httpx2

CACHE_SECONDS = 600.0
"""The time for which the facts of a model are cached."""

_FAR_FUTURE = 10**11
"""The year 5138; what is later is no time in seconds."""


class VendorInventory:
    """The models of one vendor.

    Args:
        vendor: The vendor.
        key: Its key; None for a server that needs none.
        client: The connections to use.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        vendor: Vendor,
        key: str | None,
        client: "httpx2.AsyncClient",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._vendor = vendor
        self._key = key
        self._headers = vendor.headers(key)
        self._client = client
        self._known: ExpiringCache[ModelInfo] = ExpiringCache(CACHE_SECONDS, clock=clock)

    async def list(self) -> list[ModelInfo]:
        """Return the models that can chat, in the vendor's order."""
        value = await self._get(self._vendor.list_path)
        infos = [info for item in _items(value) if (info := _info(self._vendor, item)) is not None]
        for info in infos:
            self._known.set(info.name.removeprefix(f"{self._vendor.name}:"), info)
        return [info for info in infos if info.can_chat]

    def recall(self, model: str) -> ModelInfo | None:
        """Return the cached result of ``describe``, or None."""
        info = self._known.get(model)
        return info if info is not None and info.can_chat else None

    async def describe(self, model: str) -> ModelInfo:
        """Return a model's facts, from the cache while they are fresh."""
        info = self._known.get(model)
        if info is None:
            info = await self._fetch(model)
            self._known.set(model, info)
        if not info.can_chat:
            raise ModelNotFound(
                f"Model '{info.name}' can't chat.", provider=self._vendor.name, model=model
            )
        return info

    async def _fetch(self, model: str) -> ModelInfo:
        vendor = self._vendor
        if vendor.model_path is None:
            return await self._search(model)
        path = vendor.model_path.format(quote(model, safe=""))
        info = _info(vendor, await self._get(path, model))
        # An alias is answered with the name of the model that it stands for.
        return msgspec.structs.replace(
            info or unknown(vendor, model), name=f"{vendor.name}:{model}"
        )

    async def _search(self, model: str) -> ModelInfo:
        """Look a model up in the list."""
        vendor = self._vendor
        try:
            await self.list()
        except ModelError as error:
            if vendor.list_is_complete or error.details.get("status") not in (404, 405):
                raise
        known = self._known.get(model) or self._known.get(vendor.listed_name(model))
        if known is not None:
            return msgspec.structs.replace(known, name=f"{vendor.name}:{model}")
        if vendor.list_is_complete:
            raise ModelNotFound(
                f"'{vendor.name}' does not have a model '{model}'.",
                provider=vendor.name,
                model=model,
            )
        # Such servers load models on demand, or answer to any name.
        return unknown(vendor, model)

    async def _get(self, path: str, model: str | None = None) -> Any:
        import httpx2  # noqa: PLC0415 - loaded by now, for the client

        vendor = self._vendor
        try:
            response = await self._client.get(vendor.base_url + path, headers=self._headers)
        except httpx2.HTTPError as error:
            reached = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            reason = self._words(str(error)) or type(error).__name__
            raise (interrupted if reached else unreachable)(vendor, reason, model=model) from None
        try:
            value = msgspec.json.decode(response.content.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            if response.status_code == 200:
                problem = "the list of models is not JSON"
                raise invalid_answer(vendor, problem, model=model) from None
            value = None
        if response.status_code == 200:
            return value
        words = self._words(error_message(value) or response.reason_phrase)
        raise error_from_refusal(vendor, words, model=model, status=response.status_code)

    def _words(self, text: str) -> str:
        return redact_keys(text, self._key)


def unknown(vendor: Vendor, model: str) -> ModelInfo:
    """Return the metadata of a model that the vendor does not describe: everything is allowed."""
    return ModelInfo(
        name=f"{vendor.name}:{model}",
        size_mb=0.0,
        capabilities=ALL_CAPABILITIES,
        provider=vendor.name,
        continues_answers=vendor.continues_answers(model),
    )


def _items(value: Any) -> Sequence[Mapping[str, Any]]:
    found = value.get("data", value.get("models")) if isinstance(value, dict) else value
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _info(vendor: Vendor, item: Any) -> ModelInfo | None:
    if not isinstance(item, dict):
        return None
    name = item.get("id") or item.get("name")
    if not isinstance(name, str):
        return None
    facts = vendor.facts(item)
    length = facts.context_length
    return ModelInfo(
        name=f"{vendor.name}:{name.removeprefix('models/')}",
        size_mb=0.0,
        capabilities=facts.capabilities,
        context_length=length if isinstance(length, int) and length > 0 else None,
        provider=vendor.name,
        modified_at=_modified_at(item) if vendor.lists_times else None,
        continues_answers=vendor.continues_answers(name),
    )


def _modified_at(item: Mapping[str, Any]) -> int | None:
    """Return the creation time of a model, which is a number in the list, or text for Anthropic."""
    created = item.get("created")
    if created is None:
        try:
            created = datetime.fromisoformat(item["created_at"]).timestamp()
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
    is_time = isinstance(created, int | float) and 0 < created < _FAR_FUTURE
    return int(created) if is_time else None
