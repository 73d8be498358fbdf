"""Lists models in Anthropic's shape, for clients that send ``anthropic-version``. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from sessions_app.errors import ValidationFailed

VERSION_HEADER = "anthropic-version"
MOST_OF_A_PAGE = 1000


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that are shown of a model.

    Attributes:
        name: Its name for requests.
        created: When it was last changed, in seconds since 1970.
        context_length: The longest context in tokens; None if unknown.
    """

    name: str
    created: int
    context_length: int | None


class ClaudeModelOut(msgspec.Struct, frozen=True, kw_only=True):
    """A model in Anthropic's format; what is not known is null."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str
    max_input_tokens: int | None
    max_tokens: int | None = None
    lifecycle: Literal["active"] = "active"
    capabilities: None = None


class ClaudeModelsOut(msgspec.Struct, frozen=True, kw_only=True):
    """A page of models; ``last_id`` is where the next one begins (``after_id``)."""

    data: Sequence[ClaudeModelOut]
    has_more: bool
    first_id: str | None
    last_id: str | None


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The page that a client asks for: by default the first 1,000 models."""

    limit: int = MOST_OF_A_PAGE
    after_id: str | None = None
    before_id: str | None = None


def claude_model(facts: ModelFacts) -> ClaudeModelOut:
    """Return a model's entry."""
    return ClaudeModelOut(
        id=facts.name,
        display_name=facts.name,
        created_at=f"{datetime.fromtimestamp(facts.created, UTC):%Y-%m-%dT%H:%M:%SZ}",
        max_input_tokens=facts.context_length,
    )


def page_of_models(models: Sequence[ModelFacts], query: PageQuery) -> ClaudeModelsOut:
    """Return a page of the models.

    Raises:
        ValidationFailed: ``after_id`` or ``before_id`` is not among them.
    """
    names = [model.name for model in models]
    first, end = 0, len(models)
    for field in ("after_id", "before_id"):
        name = getattr(query, field)
        if name is None:
            continue
        if name not in names:
            raise ValidationFailed(f"There is no model {name[:100]!r}.", field=field)
        if field == "after_id":
            first = names.index(name) + 1
        else:
            end = names.index(name)
    if query.before_id is not None and query.after_id is None:
        page = models[max(first, end - query.limit) : end]
        has_more = end - query.limit > first
    else:
        page = models[first : min(end, first + query.limit)]
        has_more = first + query.limit < end
    data = [claude_model(model) for model in page]
    return ClaudeModelsOut(
        data=data,
        has_more=has_more,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
    )
