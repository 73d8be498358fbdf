"""Maps OpenAI's reasoning efforts to those of models. Pure."""

from collections.abc import Mapping

from models_app.language_model import Think

THINK_OF_EFFORT: Mapping[str, Think] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
NEAREST = frozenset({"minimal", "xhigh", "max"})
"""Efforts that no model here has: the nearest one is taken, which a warning says."""
