"""Declares the bodies of the ``/profiles`` routes."""

from typing import Any, cast

import msgspec
from ninja import Schema
from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from models_app.language_model import PromptCache, ThinkLevel
from models_app.profile_parameters import ProfileParameters
from models_app.profiles import NAME_PATTERN, VARIABLE_PATTERN
from models_app.vendors.vendor import Api
from sessions_app.bounds import MOST_ITEMS
from sessions_app.http.wire_patterns import NOT_BLANK_PATTERN
from sessions_app.session import MODEL_NAME_LENGTH

_ALLOWED = cast(
    "JsonDict", msgspec.json.schema_components([ProfileParameters])[1]["ProfileParameters"]
)
_PARAMETERS: JsonDict = {"temperature": 0.2, "max_tokens": 4000, "thinking": True}
_UPDATE: JsonDict = {
    "provider": "anthropic",
    "model": "claude-haiku-4-5",
    "system_prompt": "Answer briefly.",
    "parameters": _PARAMETERS,
}
_WORK: JsonDict = {"name": "work", **_UPDATE}
_SHOWN: JsonDict = {"base_url": None, "api_key_env": None, "api": None, **_WORK}


class ParametersOut(Schema):
    """Parameters of a profile's model; null leaves one to the provider."""

    temperature: float | None = Field(None, description="0 to 2")
    max_tokens: int | None = Field(None, description="Longest answer in tokens")
    top_p: float | None = Field(None, description="0 to 1")
    top_k: int | None = Field(None, description="Candidates to sample from")
    seed: int | None = Field(None, description="Makes answers repeatable")
    stop: list[str] | None = Field(None, description="Texts that end the answer, 16 at most")
    presence_penalty: float | None = Field(None, description="-2 to 2")
    frequency_penalty: float | None = Field(None, description="-2 to 2")
    thinking: bool | ThinkLevel | None = Field(
        None, description="Whether to think, and with which effort, if a request does not say"
    )
    thinking_budget: int | None = Field(
        None, description="Tokens of reasoning; 10000 where `thinking` is true"
    )
    reasoning_effort: str | None = Field(None, description="Strength of reasoning")
    verbosity: str | None = Field(None, description="`low`, `medium` or `high`, at OpenAI")
    service_tier: str | None = Field(None, description="How OpenAI serves the request")
    context_limit: int | None = Field(
        None, description="Most tokens of a request before its history is compacted"
    )
    keep_alive: int | float | str | None = Field(
        None, description="Seconds, or a duration like `30m`, for which Ollama keeps it loaded"
    )
    cache: PromptCache | None = Field(
        None, description="How long the provider keeps a conversation in its cache"
    )


class ProfileOut(Schema):
    """A named model configuration; `profile:<name>` is a model."""

    model_config = ConfigDict(json_schema_extra={"example": _SHOWN})

    name: str = Field(description="Its name, which is the file's")
    provider: str = Field(description="`ollama`, a provider's name, or `custom`")
    model: str = Field(description="The model's name there")
    base_url: str | None = Field(None, description="Its URL, if not the configured one")
    api_key_env: str | None = Field(None, description="Environment variable that holds the key")
    api: Api | None = Field(None, description="OpenAI's API, if not the configured one")
    system_prompt: str | None = Field(
        None, description="System prompt for sessions without one of their own"
    )
    parameters: ParametersOut = Field(description="How the model answers")


class UnreadableProfileOut(Schema):
    """A file that is no profile."""

    file: str
    reason: str


class ProfileListOut(Schema):
    """All profiles by name, and invalid files."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"profiles": [_SHOWN], "unreadable": []}}
    )

    profiles: list[ProfileOut]
    unreadable: list[UnreadableProfileOut]


class _ProfileIn(Schema):
    provider: str = Field(
        description="`ollama`, a configured provider's name, or `custom`",
        json_schema_extra={"minLength": 1},
    )
    model: str = Field(
        max_length=MODEL_NAME_LENGTH,
        description="The model's name there",
        json_schema_extra={"pattern": NOT_BLANK_PATTERN},
    )
    base_url: str | None = Field(
        None,
        description="A configured address, or the one in the file",
        json_schema_extra={"pattern": r"^https?://[^\s/]"},
    )
    api_key_env: str | None = Field(
        None,
        description="The environment variable that is configured for that address",
        json_schema_extra={"pattern": VARIABLE_PATTERN},
    )
    api: Api | None = Field(None, description="OpenAI's API to ask by: of OpenAI and of servers")
    system_prompt: str | None = None
    # The service checks these; pydantic would take "0.5" for a number.
    parameters: dict[str, Any] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="How the model answers; see the answer's `parameters`",
        json_schema_extra={"properties": _ALLOWED["properties"], "additionalProperties": False},
    )


class ProfileUpdateIn(_ProfileIn):
    """A profile's whole new content."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _UPDATE})

    name: str | None = Field(None, description="May be repeated; it can't be changed")


class ProfileCreateIn(_ProfileIn):
    """A new profile."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _WORK})

    name: str = Field(
        description="Its name; 1 to 100 letters, digits, `_`, `.` and `-`",
        json_schema_extra={"pattern": NAME_PATTERN},
    )
