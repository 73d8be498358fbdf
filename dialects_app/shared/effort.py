"""Maps OpenAI's reasoning efforts to those of models. Pure."""

from typing import Literal

from models_app.language_model import Think

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


def think_of(effort: Effort) -> Think:
    """Return whether to think, and with which effort."""
    return False if effort == "none" else effort
