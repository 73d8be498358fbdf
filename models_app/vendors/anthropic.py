"""Describes Anthropic: its address, headers, list of models, thinking and SDK."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from models_app.vendors.settings import cached_prefix, thinking_budget
from models_app.vendors.signatures import running_round_is_signed
from models_app.vendors.vendor import (
    ALL_BUT_THINKING,
    ALL_CAPABILITIES,
    ModelFactory,
    ModelFacts,
    Vendor,
)
from sessions_app.messages import Message

if TYPE_CHECKING:
    import httpx2

    from models_app.language_model import ModelRequest
    from models_app.vendors.event_streams import Translator


_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d)(?:-(\d))?(?:-|$)", re.ASCII)


class Anthropic(Vendor, frozen=True, kw_only=True):
    """Anthropic's Messages API."""

    list_path = "/v1/models?limit=1000"
    model_path = "/v1/models/{}"
    thinks_before_required_calls = False
    samplers = ("top_k",)

    name: str = "anthropic"
    base_url: str = "https://api.anthropic.com"
    key_variables: tuple[str, ...] = ("ANTHROPIC_API_KEY",)

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the API's version, and the key."""
        version = {"anthropic-version": "2023-06-01"}
        return version if key is None else {**version, "x-api-key": key}

    def facts(self, item: Mapping[str, Any]) -> ModelFacts:
        """Return whether the model thinks, and its longest input."""
        capabilities = item.get("capabilities")
        thinking = capabilities.get("thinking") if isinstance(capabilities, dict) else None
        thinks = not isinstance(thinking, dict) or thinking.get("supported") is not False
        return ModelFacts(
            ALL_CAPABILITIES if thinks else ALL_BUT_THINKING, item.get("max_input_tokens")
        )

    def thinking_settings(self, think: bool | str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the effort, and the budget if the request has one."""
        settings: dict[str, Any] = {"thinking": think}
        if budget := thinking_budget(think, options):
            settings["anthropic_thinking"] = {"type": "enabled", "budget_tokens": budget}
        return settings

    def may_think(self, messages: Sequence[Message], model: str) -> bool:
        """Return False while a tool round runs whose calls came without signed thinking."""
        return running_round_is_signed(messages, self.name, model)

    def continues_answers(self, model: str) -> bool:
        """Return whether the model is older than Claude 4.6, from which on the API refuses it."""
        version = _VERSION.match(model)
        return version is not None and (int(version[1]), int(version[2] or 0)) < (4, 6)

    def cache_settings(self, kept_for: str, request: "ModelRequest") -> dict[str, Any]:
        """Return the marks of what to keep."""
        return cached_prefix(kept_for, request)

    def translator(self) -> "Translator":
        """Return what lets the SDK read odd events."""
        from models_app.vendors.claude_events import ClaudeEvents  # noqa: PLC0415 - cheap start

        return ClaudeEvents()

    def open_models(self, key: str, http_client: "httpx2.AsyncClient") -> ModelFactory:
        """Import Anthropic's SDK and return a factory of its models."""
        from anthropic import AsyncAnthropic  # noqa: PLC0415 - a second of imports
        from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
        from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

        client = AsyncAnthropic(
            api_key=key, base_url=self.base_url, http_client=http_client, max_retries=0
        )
        provider = AnthropicProvider(anthropic_client=client)
        return lambda name, _: AnthropicModel(name, provider=provider)
