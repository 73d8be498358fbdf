"""Describes Google (Gemini): its address, headers, list of models, thinking and SDK."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from models_app.vendors.settings import thinking_budget
from models_app.vendors.vendor import (
    ALL_BUT_THINKING,
    ALL_CAPABILITIES,
    ModelFactory,
    ModelFacts,
    Vendor,
)

if TYPE_CHECKING:
    import httpx2

    from models_app.vendors.event_streams import Translator


class Google(Vendor, frozen=True, kw_only=True):
    """Google's Gemini API."""

    list_path = "/v1beta/models?pageSize=1000"
    model_path = "/v1beta/models/{}"
    samplers = ("top_k",)

    name: str = "google"
    base_url: str = "https://generativelanguage.googleapis.com"
    key_variables: tuple[str, ...] = ("GOOGLE_API_KEY", "GEMINI_API_KEY")

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the key."""
        return {} if key is None else {"x-goog-api-key": key}

    def facts(self, item: Mapping[str, Any]) -> ModelFacts:
        """Return the model's output types, whether it thinks, and its longest input."""
        context_length = item.get("inputTokenLimit")
        stated = item.get("supportedGenerationMethods")
        methods = [it for it in stated if isinstance(it, str)] if isinstance(stated, list) else []
        if "generateContent" not in methods:
            return ModelFacts(tuple(methods), context_length)
        thinks = item.get("thinking") is True
        return ModelFacts(ALL_CAPABILITIES if thinks else ALL_BUT_THINKING, context_length)

    def thinking_settings(self, think: bool | str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the budget if the request has one, else the effort."""
        if budget := thinking_budget(think, options):
            config = {"include_thoughts": True, "thinking_budget": budget}
            return {"google_thinking_config": config}
        return {"thinking": think}

    def translator(self) -> "Translator":
        """Return what lets the SDK read odd events."""
        from models_app.vendors.gemini_events import GeminiEvents  # noqa: PLC0415 - cheap start

        return GeminiEvents()

    def open_models(self, key: str, http_client: "httpx2.AsyncClient") -> ModelFactory:
        """Import Google's SDK and return a factory of its models."""
        from google.genai.types import HttpRetryOptions  # noqa: PLC0415 - a second of imports
        from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
        from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

        provider = GoogleProvider(
            api_key=key,
            base_url=self.base_url,
            http_client=http_client,
            retry_options=HttpRetryOptions(attempts=1),
        )
        return lambda name, _: GoogleModel(name, provider=provider)
