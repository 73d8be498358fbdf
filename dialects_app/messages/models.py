"""Lists models in Anthropic's shape, for clients that send ``anthropic-version``. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from sessions_app.errors import ValidationFailed

VERSION_HEADER = "anthropic-version"
MOST_OF_A_PAGE = 1000


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


def claude_model(name: str, created: int, context_length: int | None) -> ClaudeModelOut:
    """Return a model's entry; it was last changed at ``created``, in seconds since 1970."""
    return ClaudeModelOut(
        id=name,
        display_name=name,
        created_at=f"{datetime.fromtimestamp(created, UTC):%Y-%m-%dT%H:%M:%SZ}",
        max_input_tokens=context_length,
    )


def page_of_models(
    models: Sequence[ClaudeModelOut], limit: int, *, after_id: str | None, before_id: str | None
) -> ClaudeModelsOut:
    """Return the first models after or before one, or the last before one.

    Raises:
        ValidationFailed: ``after_id`` or ``before_id`` is not among them.
    """
    names = [model.id for model in models]
    for field, name in {"after_id": after_id, "before_id": before_id}.items():
        if name is not None and name not in names:
            raise ValidationFailed(f"There is no model {name[:100]!r}.", field=field)
    first = 0 if after_id is None else names.index(after_id) + 1
    end = len(names) if before_id is None else names.index(before_id)
    left = models[first:end]
    data = left[-limit:] if before_id is not None and after_id is None else left[:limit]
    return ClaudeModelsOut(
        data=data,
        has_more=len(left) > limit,
        first_id=data[0].id if data else None,
        last_id=data[-1].id if data else None,
    )
