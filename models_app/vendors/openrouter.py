"""Describes OpenRouter: its address, list of models, thinking and SDK."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models_app.errors import ModelNotFound
from models_app.vendors.openai import open_sdk
from models_app.vendors.settings import cached_prefix, thinking_budget
from models_app.vendors.vendor import ModelFactory, ModelFacts, Vendor

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

    from models_app.language_model import ModelRequest
    from models_app.vendors.event_streams import Translator


class OpenRouter(Vendor, frozen=True, kw_only=True):
    """OpenRouter's API, which extends OpenAI's Chat Completions."""

    model_path = None
    thinks_before_required_calls = False
    samplers = ("top_k",)

    name: str = "openrouter"
    base_url: str = "https://openrouter.ai/api/v1"
    key_variables: tuple[str, ...] = ("OPENROUTER_API_KEY",)

    def facts(self, item: Mapping[str, Any]) -> ModelFacts:
        """Return the model's output types, supported features, and context length."""
        stated = item.get("supported_parameters")
        supported = stated if isinstance(stated, list) else []
        architecture = item.get("architecture")
        output = architecture.get("output_modalities") if isinstance(architecture, dict) else None
        capabilities = ["completion"] if not isinstance(output, list) or "text" in output else []
        capabilities += ["tools"] if "tools" in supported else []
        capabilities += ["thinking"] if "reasoning" in supported else []
        shown = architecture.get("input_modalities") if isinstance(architecture, dict) else None
        capabilities += ["vision"] if isinstance(shown, list) and "image" in shown else []
        return ModelFacts(tuple(capabilities), item.get("context_length"))

    def listed_name(self, model: str) -> str:
        """Return the name without its variant (``:free``), which is only another routing."""
        return model.partition(":")[0]

    def thinking_settings(self, think: bool | str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the budget if the request has one, else the effort."""
        if budget := thinking_budget(think, options):
            return {"openrouter_reasoning": {"enabled": True, "max_tokens": budget}}
        return {"thinking": think}

    def cache_settings(self, kept_for: str, request: "ModelRequest") -> dict[str, Any]:
        """Return the marks of what to keep."""
        return cached_prefix(kept_for, request)

    def translator(self) -> "Translator":
        """Return what gives its chunks OpenAI's form."""
        from models_app.vendors.chat_chunks import ChatChunks  # noqa: PLC0415 - cheap start

        return ChatChunks(is_openrouter=True)

    def open_models(self, key: str, http_client: "httpx2.AsyncClient") -> ModelFactory:
        """Import OpenAI's SDK and return a factory of OpenRouter's models."""
        from pydantic_ai.models.openrouter import OpenRouterModel  # noqa: PLC0415 - lazy
        from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415
        from pydantic_ai.providers.openrouter import OpenRouterProvider  # noqa: PLC0415

        provider = OpenRouterProvider(openai_client=open_sdk(self, key, http_client))
        overrides = OpenAIModelProfile(
            openai_chat_streaming_requires_finish_reason=True,
            supports_thinking=True,
            supports_json_schema_output=True,  # models without it get the schema as text
        )

        def make(name: str, _: bool) -> "Model":
            if "/" not in name:
                raise ModelNotFound(
                    f"OpenRouter's models are named '<vendor>/<model>', and '{name}' is not.",
                    provider=self.name,
                    model=name,
                )
            return OpenRouterModel(name, provider=provider, profile=overrides)

        return make
