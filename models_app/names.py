"""Checks the names of models: their length, and whether the key of a request allows them."""

import re
from collections.abc import Iterable, Sequence

from mochi_project.principal import OPERATOR, PRINCIPAL
from models_app.errors import ModelNotFound, ModelNotPermitted
from models_app.language_model import ModelInfo
from sessions_app.session import MODEL_NAME_LENGTH

_OLLAMA = "ollama:"
_LATEST = ":latest"


def require_usable(name: str) -> None:
    """Check that a request may use a model with this name, if there is one.

    Raises:
        ModelNotFound: The name is too long.
        ModelNotPermitted: The key of the request is for other models.
    """
    if len(name) > MODEL_NAME_LENGTH:
        shown = f"{name[:50]}..."
        raise ModelNotFound(
            f"Model '{shown}' not found: a model's name has {MODEL_NAME_LENGTH} characters at "
            f"most, this one has {len(name):,}.",
            model=shown,
        )
    if not is_permitted(name):
        raise ModelNotPermitted(name)


def is_permitted(name: str) -> bool:
    """Return whether the running code may use a model of this name."""
    allowed = patterns()
    if "*" in allowed:
        return True
    bare = name.removeprefix(_OLLAMA)
    names = {name, bare, bare.removesuffix(_LATEST)}
    if ":" not in bare:
        names.add(bare + _LATEST)
    any_of = "|".join(".*".join(map(re.escape, each.split("*"))) for each in allowed)
    return any(re.fullmatch(any_of, each, re.DOTALL) for each in names)


def patterns() -> tuple[str, ...]:
    """Return the patterns of the models that the running code may use; what no key began, all."""
    return PRINCIPAL.get(OPERATOR).models


def permitted(models: Iterable[ModelInfo]) -> Sequence[ModelInfo]:
    """Return the models that the running code may use."""
    return [info for info in models if is_permitted(info.name)]
