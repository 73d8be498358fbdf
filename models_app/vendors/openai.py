"""Describes OpenAI: its address, list of models and SDK, which other vendors use too."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from models_app.model_calls import current_caller
from models_app.vendors.vendor import ModelFactory, ModelFacts, Vendor

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers import Provider

    from models_app.language_model import ModelRequest

_OWN_MODELS = re.compile(r"(?:gpt|chatgpt|o\d|ft:|codex|davinci|babbage|computer-use)")
# Models in the list that can't chat; it has no field that says so.
_NOT_FOR_CHAT = (
    "text-embedding", "whisper", "tts-", "dall-e", "omni-moderation", "gpt-image", "sora",
    "davinci", "babbage", "text-moderation",
)  # fmt: skip


class OpenAI(Vendor, frozen=True, kw_only=True):
    """OpenAI's Chat Completions API."""

    name: str = "openai"
    base_url: str = "https://api.openai.com/v1"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)

    def facts(self, item: Mapping[str, Any]) -> ModelFacts:
        """Return whether the model chats: the list has names alone."""
        name = str(item.get("id") or item.get("name"))
        return ModelFacts(()) if name.startswith(_NOT_FOR_CHAT) else ModelFacts()

    def cache_settings(self, kept_for: str, request: "ModelRequest") -> dict[str, Any]:
        """Return the key by which requests of one session reach the same cache."""
        caller = current_caller()
        return {"openai_prompt_cache_key": caller.session_id} if caller else {}

    def open_models(self, key: str, http_client: "httpx2.AsyncClient") -> ModelFactory:
        """Import OpenAI's SDK and return a factory of its models."""
        from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

        client = open_sdk(self, key, http_client, with_account=True)
        provider = OpenAIProvider(openai_client=client)
        # Behind a configured address there may be models of others, too.
        return lambda name: chat_model(name, provider, is_openais=bool(_OWN_MODELS.match(name)))


def open_sdk(
    vendor: Vendor, key: str, http_client: "httpx2.AsyncClient", *, with_account: bool = False
) -> "AsyncOpenAI":
    """Import OpenAI's SDK and return its client for a vendor; retries are ours.

    Args:
        vendor: The server to connect to.
        key: The API key.
        http_client: The connections to use.
        with_account: Whether to send the organization and project that the SDK reads from the
            environment; other servers must not learn them.
    """
    from openai import AsyncOpenAI, Omit  # noqa: PLC0415 - a second of imports

    unnamed = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    return AsyncOpenAI(
        api_key=key,
        base_url=vendor.base_url,
        http_client=http_client,
        max_retries=0,
        default_headers={} if with_account else cast("dict[str, str]", unnamed),
    )


def chat_model(
    name: str, provider: "Provider[AsyncOpenAI]", *, is_openais: bool
) -> "OpenAIChatModel":
    """Return pydantic-ai's model for a name; OpenAI's own models have other parameters."""
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 - a second of imports
    from pydantic_ai.profiles import merge_profile  # noqa: PLC0415
    from pydantic_ai.profiles.openai import OpenAIModelProfile  # noqa: PLC0415

    # Without its reason for stopping, an answer may have broken off anywhere.
    overrides = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    if not is_openais:
        overrides["supports_thinking"] = True
        overrides["openai_chat_supports_max_completion_tokens"] = False
    known = OpenAIChatModel(name, provider=provider).profile
    return OpenAIChatModel(name, provider=provider, profile=merge_profile(known, overrides))
