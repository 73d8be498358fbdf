"""Declares the settings of models and their providers."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.setting_types import HttpUrl, List, Seconds
from models_app.aliases import checked_aliases
from models_app.language_model import PromptCache
from models_app.ollama.host import full_url
from models_app.vendors.registry import KNOWN_VENDORS, RESERVED_NAMES
from models_app.vendors.vendor import Api
from sessions_app.keep_alive import require_keep_alive
from sessions_app.session import MODEL_NAME_LENGTH


class ProviderConfig(BaseModel):
    """``MOCHI_PROVIDERS__<NAME>__BASE_URL``, ``..._API_KEY_ENV`` and ``..._API``.

    For a known vendor they override its address or the variable of its key; any other name is an
    OpenAI-compatible server, which needs a base URL. ``api`` is for OpenAI and such servers.
    """

    base_url: HttpUrl | None
    api_key_env: str | None = None
    api: Api = "auto"


def _known_vendors_need_no_base_url(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004 - pydantic's way
    known = {vendor.name for vendor in KNOWN_VENDORS}
    return {
        name: {"base_url": None, **item} if name in known and isinstance(item, dict) else item
        for name, item in value.items()
    }


def _can_be_asked(value: dict[str, ProviderConfig]) -> dict[str, ProviderConfig]:
    for name in sorted(RESERVED_NAMES & value.keys()):
        raise ValueError(f"can't hold a provider named {name}")
    for vendor in KNOWN_VENDORS:
        if vendor.name in value and value[vendor.name].api != "auto" and not vendor.has_apis:
            raise ValueError(f"can't choose the API of {vendor.name}, which has one of its own")
    return value


Providers = Annotated[
    dict[str, ProviderConfig],
    BeforeValidator(_known_vendors_need_no_base_url),
    AfterValidator(_can_be_asked),
]
"""Providers by name."""


def _as_ollama_reads_it(value: Any) -> Any:
    """Return a URL for ``host[:port][/path]``, which Ollama's ``OLLAMA_HOST`` may be, too."""
    return full_url(value) if isinstance(value, str) else value


_WINDOWS = range(2_048, 1_048_577)


def _checked_window(value: Any) -> Any:
    text = str(value)
    if text == "ollama" or (text.isdecimal() and len(text) < 8 and int(text) in _WINDOWS):
        return value
    raise ValueError(f"must be {_WINDOWS[0]:,} to {_WINDOWS[-1]:,} tokens, or ollama")


FirstWindow = Annotated[Literal["ollama"] | int, BeforeValidator(_checked_window)]


def _checked_keep_alive(value: Any) -> Any:
    try:
        return require_keep_alive(float(value) if _NUMBER.fullmatch(str(value)) else value)
    except ValueError:
        raise ValueError("must be seconds, or a duration like 30m") from None


_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
KeepAlive = Annotated[float | str, BeforeValidator(_checked_keep_alive)]
Aliases = Annotated[List, AfterValidator(checked_aliases)]
OllamaUrl = Annotated[HttpUrl, BeforeValidator(_as_ollama_reads_it)]


class ModelsSettings(AppSettings):
    """Holds where models are, and the one of new sessions."""

    ollama_host: OllamaUrl = Field("http://localhost:11434", description="URL of the Ollama server")
    providers: Providers = Field(
        default_factory=dict,
        description=(
            "Providers: `MOCHI_PROVIDERS__<NAME>__BASE_URL`, `..._API_KEY_ENV`, `..._API`; other "
            "names than `openai`, `anthropic`, `google`, `openrouter` are OpenAI-compatible servers"
        ),
    )
    prompt_cache: PromptCache = Field(
        "5m", description="How long providers keep what a conversation sends again with each turn"
    )
    default_model: str | None = Field(
        None, max_length=MODEL_NAME_LENGTH, description="Model of new sessions that name none"
    )
    model_aliases: Aliases = Field(
        default_factory=list,
        description="Models for names that no provider has, as `claude-*=qwen3:14b,NAME=MODEL`",
    )
    ollama_keep_alive: KeepAlive | None = Field(
        None, description="How long Ollama keeps a model loaded, as `30m`; its default is 5 minutes"
    )
    first_window: FirstWindow = Field(
        8192, description="Context window of new sessions, in tokens; `ollama`: Ollama's default"
    )
    upstream_timeout_seconds: Seconds = Field(300, description="Longest silence of a model")
