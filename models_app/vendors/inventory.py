"""Which models a vendor offers, asked over plain HTTP: no SDK is imported for it.

What vendors tell differs. OpenRouter, Google and Anthropic say how long a context is and what a
model can do; OpenAI and compatible servers give names alone, and then nothing is ruled out.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from models_app.bounded_dict import remember
from models_app.errors import ModelError, ModelNotFound
from models_app.language_model import ModelInfo
from models_app.vendors.errors import (
    broke_off,
    error_of_refusal,
    message_in,
    no_connection,
    unreadable,
    without_keys,
)
from models_app.vendors.registry import Vendor

if TYPE_CHECKING:
    import httpx2

TRUSTED_SECONDS = 600.0
"""How long what a vendor told of a model is believed."""

_ANYTHING = ("completion", "tools", "thinking")
# Names in OpenAI's list that do not chat; it has no field that says so.
_OPENAI_OTHERS = (
    "text-embedding", "whisper", "tts-", "dall-e", "omni-moderation", "gpt-image", "sora",
    "davinci", "babbage", "text-moderation",
)  # fmt: skip


class VendorInventory:
    """What is known of one vendor's models.

    Args:
        vendor: Who to ask.
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
        self._headers = _headers(vendor, key)
        self._client = client
        self._clock = clock
        self._known: dict[str, tuple[ModelInfo, float]] = {}

    async def list(self) -> list[ModelInfo]:
        """Return the models that can chat, in the vendor's order.

        Raises:
            ModelError: The vendor can't be asked.
        """
        value = await self._get(_LIST_PATHS[self._vendor.kind])
        infos = [info for item in _items(value) if (info := _info(self._vendor, item)) is not None]
        for info in infos:
            self._learn(info)
        return [info for info in infos if info.can_chat]

    def recall(self, model: str) -> ModelInfo | None:
        """Return what was told of a model lately, without asking."""
        known = self._known.get(model)
        if known is None or self._clock() - known[1] > TRUSTED_SECONDS:
            return None
        return known[0] if known[0].can_chat else None

    async def describe(self, model: str) -> ModelInfo:
        """Return what is known of a model, without asking if that was done lately.

        Raises:
            ModelNotFound: The vendor does not have it, or it can't chat.
            ModelError: The vendor can't be asked.
        """
        known = self._known.get(model)
        if known is None or self._clock() - known[1] > TRUSTED_SECONDS:
            info = await self._ask(model)
            self._learn(info, model)
        else:
            info = known[0]
        if not info.can_chat:
            raise ModelNotFound(
                f"Model '{info.name}' can't chat.", provider=self._vendor.name, model=model
            )
        return info

    async def _ask(self, model: str) -> ModelInfo:
        vendor = self._vendor
        if vendor.kind in ("openrouter", "compatible"):
            # These have no route for one model, or none that can be relied on.
            try:
                await self.list()
            except ModelError as error:
                if vendor.kind == "openrouter" or error.details.get("status") not in (404, 405):
                    raise
            base = model.partition(":")[0] if vendor.kind == "openrouter" else model
            known = self._known.get(model) or self._known.get(base)
            if known is not None:
                return msgspec.structs.replace(known[0], name=f"{vendor.name}:{model}")
            if vendor.kind == "openrouter":
                raise self._missing(model)
            # Such servers load models on demand, or answer to any name.
            return unknown(vendor, model)
        path = _ONE_PATHS[vendor.kind].format(quote(model, safe=""))
        info = _info(vendor, await self._get(path, model))
        # Asked by an alias, the vendor tells of what it stands for.
        return msgspec.structs.replace(
            info or unknown(vendor, model), name=f"{vendor.name}:{model}"
        )

    async def _get(self, path: str, model: str | None = None) -> Any:
        import httpx2  # noqa: PLC0415 - loaded by now, for the client

        from models_app.vendors.http_client import Redirected, redirected  # noqa: PLC0415

        vendor = self._vendor
        try:
            response = await self._client.get(vendor.base_url + path, headers=self._headers)
        except Redirected as redirect:
            raise redirected(vendor, redirect) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            reason = self._words(str(error)) or type(error).__name__
            raise no_connection(vendor, reason, model=model) from None
        except httpx2.HTTPError as error:
            reason = self._words(str(error)) or type(error).__name__
            raise broke_off(vendor, reason, model=model) from None
        try:
            value = msgspec.json.decode(response.content)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            if response.status_code == 200:
                raise unreadable(vendor, "the list of models is no JSON", model=model) from None
            value = None
        if response.status_code == 200:
            return value
        words = self._words(message_in(value) or response.reason_phrase)
        raise error_of_refusal(vendor, words, model=model, status=response.status_code)

    def _words(self, text: str) -> str:
        return without_keys(text, self._key)

    def _learn(self, info: ModelInfo, name: str | None = None) -> None:
        bare = name or info.name.removeprefix(f"{self._vendor.name}:")
        remember(self._known, bare, (info, self._clock()))

    def _missing(self, model: str) -> ModelNotFound:
        return ModelNotFound(
            f"'{self._vendor.name}' does not have a model '{model}'.",
            provider=self._vendor.name,
            model=model,
        )


_LIST_PATHS = {
    "anthropic": "/v1/models?limit=1000",
    "google": "/v1beta/models?pageSize=1000",
    "openai": "/models",
    "openrouter": "/models",
    "compatible": "/models",
}
_ONE_PATHS = {
    "anthropic": "/v1/models/{}",
    "google": "/v1beta/models/{}",
    "openai": "/models/{}",
}


def unknown(vendor: Vendor, model: str) -> ModelInfo:
    """Return what is said of a model of which nothing is told: nothing is ruled out."""
    return ModelInfo(
        name=f"{vendor.name}:{model}", size_mb=0.0, capabilities=_ANYTHING, provider=vendor.name
    )


def _headers(vendor: Vendor, key: str | None) -> dict[str, str]:
    if vendor.kind == "anthropic":
        version = {"anthropic-version": "2023-06-01"}
        return version if key is None else {**version, "x-api-key": key}
    if key is None:
        return {}
    if vendor.kind == "google":
        return {"x-goog-api-key": key}
    return {"Authorization": f"Bearer {key}"}


def _items(value: Any) -> Sequence[Mapping[str, Any]]:
    found = value.get("data", value.get("models")) if isinstance(value, dict) else value
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _info(vendor: Vendor, item: Any) -> ModelInfo | None:
    if not isinstance(item, dict):
        return None
    name = item.get("id") or item.get("name")
    if not isinstance(name, str):
        return None
    capabilities, context = _FACTS[vendor.kind](item, name)
    return ModelInfo(
        name=f"{vendor.name}:{name.removeprefix('models/')}",
        size_mb=0.0,
        capabilities=capabilities,
        context_length=context if isinstance(context, int) and context > 0 else None,
        provider=vendor.name,
    )


def _anthropic_facts(item: Mapping[str, Any], _: str) -> tuple[Sequence[str], Any]:
    told = item.get("capabilities")
    thinking = told.get("thinking") if isinstance(told, dict) else None
    thinks = not isinstance(thinking, dict) or thinking.get("supported") is not False
    can = _ANYTHING if thinks else ("completion", "tools")
    return can, item.get("max_input_tokens")


def _google_facts(item: Mapping[str, Any], _: str) -> tuple[Sequence[str], Any]:
    told = item.get("supportedGenerationMethods")
    methods = [it for it in told if isinstance(it, str)] if isinstance(told, list) else []
    if "generateContent" not in methods:
        return tuple(methods), item.get("inputTokenLimit")
    thinks = item.get("thinking") is True
    return (_ANYTHING if thinks else ("completion", "tools")), item.get("inputTokenLimit")


def _openrouter_facts(item: Mapping[str, Any], _: str) -> tuple[Sequence[str], Any]:
    told = item.get("supported_parameters")
    supported = told if isinstance(told, list) else []
    architecture = item.get("architecture")
    makes = architecture.get("output_modalities") if isinstance(architecture, dict) else None
    can = ["completion"] if not isinstance(makes, list) or "text" in makes else []
    can += ["tools"] if "tools" in supported else []
    can += ["thinking"] if "reasoning" in supported else []
    return tuple(can), item.get("context_length")


def _openai_facts(_: Mapping[str, Any], name: str) -> tuple[Sequence[str], Any]:
    return (() if name.startswith(_OPENAI_OTHERS) else _ANYTHING), None


def _compatible_facts(item: Mapping[str, Any], _: str) -> tuple[Sequence[str], Any]:
    # vLLM, OpenRouter's relatives and llama.cpp say it, each under a name of its own.
    meta = item.get("meta")
    trained = meta.get("n_ctx_train") if isinstance(meta, dict) else None
    return _ANYTHING, item.get("max_model_len") or item.get("context_length") or trained


_FACTS = {
    "anthropic": _anthropic_facts,
    "google": _google_facts,
    "openai": _openai_facts,
    "openrouter": _openrouter_facts,
    "compatible": _compatible_facts,
}
