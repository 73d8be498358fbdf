"""Declares the parameters of a profile's model. Pure."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from models_app.language_model import PromptCache, Think
from models_app.vendors.settings import DEFAULT_THINKING_BUDGET
from sessions_app.keep_alive import require_keep_alive

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Filled = Annotated[str, msgspec.Meta(min_length=1)]


class ProfileParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's parameters; None leaves one to the provider.

    Attributes:
        temperature: From 0 to 2.
        max_tokens: The longest answer, in tokens.
        top_p: From 0 to 1.
        top_k: How many candidates to sample from.
        seed: Makes answers repeatable.
        stop: Texts that end the answer.
        presence_penalty: From -2 to 2.
        frequency_penalty: From -2 to 2.
        thinking: Whether to think, and with which effort, unless a request sets it.
        thinking_budget: Tokens of reasoning; 10,000 by default if ``thinking`` is true.
        reasoning_effort: The effort of reasoning by the provider's own name.
        verbosity: How long OpenAI's models answer.
        service_tier: How OpenAI serves the request.
        context_limit: The most tokens that a request may have before its history is compacted.
        keep_alive: Seconds or a duration for which Ollama keeps the model loaded.
        cache: How long the provider keeps a conversation in its cache, if not as configured.
    """

    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    max_tokens: Positive | None = None
    top_p: Share | None = None
    top_k: Positive | None = None
    seed: int | None = None
    stop: Annotated[Sequence[Filled], msgspec.Meta(max_length=16)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    thinking: Think | None = None
    thinking_budget: Positive | None = None
    reasoning_effort: Filled | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    context_limit: Annotated[int, msgspec.Meta(ge=256)] | None = None
    keep_alive: Any = None
    cache: PromptCache | None = None

    def __post_init__(self) -> None:
        """Check what the types can't."""
        require_keep_alive(self.keep_alive)

    def options(self) -> dict[str, Any]:
        """Return the parameters as a request's ``options``."""
        options = {
            field: value
            for field in self.__struct_fields__
            if field not in ("thinking", "context_limit")
            and (value := getattr(self, field)) is not None
        }
        if self.thinking is True:
            options.setdefault("thinking_budget", DEFAULT_THINKING_BUDGET)
        return options
