"""Describes servers that copy OpenAI's Chat Completions API: vLLM, llama.cpp, gateways."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models_app.vendors.openai import (
    chat_model,
    open_sdk,
    openai_settings,
    responses_model,
    session_cache,
)
from models_app.vendors.vendor import ALL_CAPABILITIES, ModelFactory, ModelFacts, Vendor

if TYPE_CHECKING:
    import httpx2

    from models_app.language_model import ModelRequest


class CompatibleServer(Vendor, frozen=True, kw_only=True):
    """A server with OpenAI's API at a configured address."""

    model_path = None
    samplers = ("top_k", "min_p", "repeat_penalty")  # of llama.cpp, vLLM and their like
    list_is_complete = False
    lists_times = False
    fills_empty_text = True
    has_apis = True
    fits_answers_beside_tools = False  # vLLM and llama.cpp hold calls to the schema, too

    def facts(self, item: Mapping[str, Any]) -> ModelFacts:
        """Return the context length, which each kind of server states under a name of its own."""
        meta = item.get("meta")
        trained = meta.get("n_ctx_train") if isinstance(meta, dict) else None
        length = item.get("max_model_len") or item.get("context_length") or trained
        return ModelFacts(ALL_CAPABILITIES, length)

    def sampling_settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the samplers, which OpenAI's SDK passes on unchanged."""
        samplers = super().sampling_settings(options)
        own = openai_settings(options) if self.api == "responses" else {}
        return {**own, "extra_body": samplers} if samplers else own

    def thinking_settings(self, think: bool | str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the effort; servers differ in how to disable it, and some refuse the parameter."""
        if not think:
            return {}
        return {"openai_reasoning_effort": "medium" if think is True else str(think)}

    def cache_settings(self, kept_for: str, request: "ModelRequest") -> dict[str, Any]:
        """Return the key that OpenAI's Responses has; older servers know none."""
        return session_cache() if self.api == "responses" else {}

    def open_models(self, key: str, http_client: "httpx2.AsyncClient") -> ModelFactory:
        """Import OpenAI's SDK and return a factory of the server's models."""
        from pydantic_ai.providers.openai_compatible import (  # noqa: PLC0415 - lazy
            OpenAICompatibleProvider,
        )

        client = open_sdk(self, key, http_client)
        provider = OpenAICompatibleProvider(self.name, openai_client=client)
        return lambda name, by_responses: (
            responses_model(name, provider)
            if by_responses
            else chat_model(name, provider, is_openais=False)
        )
