"""Observes model calls, turns and tool calls: the log, usage, budgets, metrics and traces.

They observe the turns and model calls of every process that answers or summarizes
(docs/decisions/0048).
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chat.turn.observer import TurnObserver
from mochi_project.telemetry import Telemetry
from models_app.model_calls import CallHeaders, ModelCallObserver

if TYPE_CHECKING:
    from usage_app.metrics.meters import Meters
    from usage_app.traces.service import TraceService


@dataclass(frozen=True, slots=True)
class Observers(Telemetry):
    """Observes the model calls and turns of this process."""

    model_calls: ModelCallObserver
    turns: TurnObserver
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
        """Send observations, with a short time limit."""
        if self.traces is not None:
            await self.traces.flush()

    def sample(self, *, loop_lag: float, streams: int) -> None:
        """Record the event loop's delay in seconds and the number of listeners."""
        if self.meters is not None:
            self.meters.sample(loop_lag=loop_lag, streams=streams)

    async def metrics(self, accept: str, *, queue_age: float | None) -> tuple[bytes, str] | None:
        """Return the metrics of all processes and their content type; None if they are off."""
        if self.meters is None:
            return None
        return await asyncio.to_thread(self.meters.render, accept, queue_age=queue_age)

    async def aclose(self) -> None:
        """Send observations, and stop."""
        if self.meters is not None:
            self.meters.close()
        if self.traces is not None:
            await self.traces.aclose()
