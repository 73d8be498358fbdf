"""Gives models further names: ``MOCHI_MODEL_ALIASES`` (docs/decisions/0155).

Some clients only ask for names of their own vendor, such as ``claude-haiku-4-5``.
"""

import re
from collections.abc import Sequence
from typing import Any

from models_app.expiring_cache import ExpiringCache

MISSING_SECONDS = 60.0
"""For how long a name that no provider has is taken for an alias before it is asked for again."""

_ANY_TEXT = "*"


class ModelAliases:
    """The further names of models, in order; the first that matches counts.

    A model's own name goes before: a name is an alias once no provider has it.

    Args:
        entries: Each is ``NAME=MODEL``, where ``*`` in the name stands for any text.

    Attributes:
        names: The names without ``*``, which are listed among the models.

    Raises:
        ValueError: An entry has another form.
    """

    def __init__(self, entries: Sequence[str] = ()) -> None:
        pairs = [_pair(entry) for entry in entries]
        self.names = [name for name, _ in pairs if _ANY_TEXT not in name]
        self._patterns = [(_pattern(name), model) for name, model in pairs]
        self._missing: ExpiringCache[str] = ExpiringCache(MISSING_SECONDS)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._patterns)

    def meant(self, name: str) -> str:
        """Return the model that a name stands for: itself, unless no provider has it."""
        return (self._missing.get(name) or name) if self._patterns else name

    def note_missing(self, name: str) -> bool:
        """Note that no provider has a name. Returns whether it stands for a model as an alias."""
        for pattern, model in self._patterns:
            if pattern.fullmatch(name) and model != name:
                self._missing.set(name, model)
                return True
        return False


def checked_aliases(entries: list[str]) -> list[str]:
    """Return the entries of the setting. Raises ValueError as ``ModelAliases`` does."""
    ModelAliases(entries)
    return entries


def _pair(entry: Any) -> tuple[str, str]:
    name, _, model = (part.strip() for part in entry.partition("="))
    if not name or not model or _ANY_TEXT in model:
        raise ValueError("must list NAME=MODEL, as in claude-*=qwen3:14b")
    return name, model


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, name.split(_ANY_TEXT))), re.DOTALL)
