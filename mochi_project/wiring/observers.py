"""Builds what observes model calls, turns and tool calls: the log, and what is configured.

Each observer that is added here sees the turns and the model calls of every process that answers
or summarizes (docs/decisions/0048).
"""

from dataclasses import dataclass

from chat.turn.observer import TURN_LOG, TurnObserver, TurnObservers
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.usage import Usage, build_usage
from models_app.model_calls import ModelCallLog, ModelCallObserver, ModelCallObservers


@dataclass(frozen=True, slots=True)
class Observers:
    """Sees the model calls and the turns of this process."""

    model_calls: ModelCallObserver
    turns: TurnObserver
    usage: Usage


def build_observers(settings: MochiSettings) -> Observers:
    """Build the observers; those that may refuse a model call come first."""
    usage = build_usage(settings)
    model_calls: list[ModelCallObserver] = [usage.recorder, ModelCallLog()]
    turns: list[TurnObserver] = [TURN_LOG]
    return Observers(ModelCallObservers(model_calls), TurnObservers(turns), usage)
