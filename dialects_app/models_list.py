"""Lists the models of all providers, the profiles and the agents as OpenAI's ``/v1/models`` does.

Beyond OpenAI's four fields there are those that front ends miss: the name, the longest context, the
capabilities and the modalities.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from models_app.language_model import ModelInfo

Kind = Literal["model", "profile", "agent"]
"""The kinds of models; ``?kind=`` chooses one of them."""

CREATED = 1_700_000_000
"""``created`` of what has no known time of modification. Clients cache by it."""


class ModelOut(msgspec.Struct, frozen=True, kw_only=True):
    """A model, as clients of OpenAI's protocol see it.

    Attributes:
        id: The name to ask for.
        created: When it was modified, in seconds; a constant where that is not known.
        owned_by: Its provider; of profiles and agents that word.
        name: The name to show.
        context_length: The longest context, in tokens; null if unknown.
        capabilities: ``completion``, ``tools``, ``thinking``, ``vision``, ...
        architecture: The kinds of input that it takes.
    """

    id: str
    object: Literal["model"] = "model"
    created: int = CREATED
    owned_by: str
    name: str
    context_length: int | None = None
    capabilities: Sequence[str] = ()
    architecture: dict[str, Any]


class ModelListOut(msgspec.Struct, frozen=True, kw_only=True):
    """All models, on one page."""

    object: Literal["list"] = "list"
    data: Sequence[ModelOut]


def model_out(info: ModelInfo, *, name: str | None = None) -> ModelOut:
    """Return a model's entry.

    Args:
        info: Its facts.
        name: The name that was asked for, if it is another than in its facts.
    """
    shown = name or info.name
    inputs = ["text", "image"] if "vision" in info.capabilities else ["text"]
    return ModelOut(
        id=shown,
        owned_by=info.provider,
        name=shown,
        context_length=info.context_limit or info.context_length,
        capabilities=info.capabilities,
        architecture={"input_modalities": inputs},
    )
