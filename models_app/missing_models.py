"""Explains what may have been meant by a name of a model that no provider has. Pure."""

import difflib
from collections.abc import Collection

from models_app.errors import ModelNotFound

_RESEMBLES = 0.75


def explained(
    error: ModelNotFound, name: str, *, prefixes: Collection[str], has_aliases: bool
) -> ModelNotFound:
    """Return the error of a model that Ollama does not have, with what may have been meant.

    Args:
        error: Ollama's error.
        name: The model's name.
        prefixes: The names of providers, and what else names of models may begin with.
        has_aliases: Whether ``MOCHI_MODEL_ALIASES`` is set.
    """
    meant = _meant(name, prefixes)
    if meant is not None:
        sentence = f"Model '{name}' not found; did you mean {meant}?"
    elif has_aliases:
        return error
    else:
        reason = error.message.rstrip(".")
        sentence = f"{reason}. MOCHI_MODEL_ALIASES can have this name stand for another."
    return ModelNotFound(sentence, **error.details)


def _meant(name: str, prefixes: Collection[str]) -> str | None:
    """Return the name with the provider that its misspelt prefix resembles, if it does.

    Ollama is left out, since models' names resemble it: ``llama3:8b``.
    """
    prefix, colon, rest = name.partition(":")
    close = difflib.get_close_matches(prefix.lower(), prefixes, n=1, cutoff=_RESEMBLES)
    return f"{close[0]}:{rest}" if colon and close and close[0] != prefix else None
