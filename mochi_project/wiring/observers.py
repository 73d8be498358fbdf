"""Builds the observers of model calls, turns and tool calls: the log and configured ones.

They observe the turns and model calls of every process that answers or summarizes
(docs/decisions/0048).
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chat.turn.observer import TURN_LOG, TurnObserver, TurnObservers
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.budgets import build_budgets
from mochi_project.wiring.metrics import build_meters
from mochi_project.wiring.traces import build_traces
from mochi_project.wiring.usage import Usage, build_usage
from models_app.model_calls import (
    CallHeaders,
    ModelCallLog,
    ModelCallObserver,
    ModelCallObservers,
)
from usage_app.budgets.observer import Budgets

if TYPE_CHECKING:
    from usage_app.metrics.meters import Meters
    from usage_app.traces.service import TraceService


@dataclass(frozen=True, slots=True)
class Observers:
    """Observes the model calls and turns of this process."""

    model_calls: ModelCallObserver
    turns: TurnObserver
    usage: Usage
    budgets: Budgets
    traces: "TraceService | None" = None
    meters: "Meters | None" = None

    @property
    def call_headers(self) -> CallHeaders | None:
        """Returns additional headers of model calls; None without tracing."""
        return None if self.traces is None else self.traces.observer.call_headers

    @property
    def tool_headers(self) -> CallHeaders | None:
        """Returns additional headers of tool calls; None without tracing."""
        return None if self.traces is None else self.traces.observer.tool_headers

    async def open(self) -> None:
        """Open resources in advance, so that the first turn need not wait."""
        if self.traces is not None:
            await asyncio.to_thread(self.traces.open)

    async def flush(self) -> None:
        """Write and send observations, with a short time limit.

        Needed if the event loop stops between tasks, when timers would not fire.
        """
        if self.meters is not None:
            self.meters.write()
        if self.traces is not None:
            await self.traces.flush()

    async def aclose(self) -> None:
        """Send observations, write the rest to disk, and stop."""
        await asyncio.to_thread(self.usage.recorder.close)
        if self.meters is not None:
            self.meters.close()
        if self.traces is not None:
            await self.traces.aclose()


def build_observers(settings: MochiSettings) -> Observers:
    """Build the observers; those that may reject a model call come first."""
    usage = build_usage(settings)
    budgets = build_budgets(settings, usage)
    model_calls: list[ModelCallObserver] = [budgets, usage.recorder, ModelCallLog()]
    turns: list[TurnObserver] = [TURN_LOG]
    if (meters := build_meters(settings)) is not None:
        model_calls.append(meters)
        turns.append(meters)
    if (traces := build_traces(settings)) is not None:  # last: a rejected call has no span
        model_calls.append(traces.observer)
        turns.insert(0, traces.observer)  # first: log lines include the span
    calls, of_turns = ModelCallObservers(model_calls), TurnObservers(turns)
    return Observers(calls, of_turns, usage, budgets, traces, meters)
