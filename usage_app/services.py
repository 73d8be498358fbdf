"""Provides usage, budgets, metrics and traces, which observe model calls, turns and tool calls."""

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from chat.turn.observer import TURN_LOG, TurnObserver, TurnObservers
from mochi_project.app import Factory, Services
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.telemetry import Telemetry
from mochi_project.version import VERSION
from models_app.model_calls import (
    ModelCallHeaders,
    ModelCallLog,
    ModelCallObserver,
    ModelCallObservers,
)
from models_app.prices import Prices
from tools_app.mcp.remote import ToolCallHeaders
from usage_app.budgets.observer import Budgets
from usage_app.observers import Observers
from usage_app.settings import UsageSettings
from usage_app.usage import Usage, build_usage

if TYPE_CHECKING:
    from usage_app.budgets.gate import BudgetGate
    from usage_app.metrics.meters import Meters
    from usage_app.traces.service import TraceService

BUDGETS = "budgets.json"

logger = logging.getLogger(__name__)


def build_budgets(settings: AppSettings, usage: Usage) -> Budgets:
    """Build the observer; opens nothing."""
    path = settings.resolved_data_dir / BUDGETS

    def build() -> "BudgetGate":
        from usage_app.budgets.gate import BudgetGate  # noqa: PLC0415 - only with budgets
        from usage_app.budgets.running_calls import RunningCalls  # noqa: PLC0415

        running = RunningCalls(settings.resolved_state_dir / "budgets")
        return BudgetGate(path, ledger=usage.ledger, prices=usage.prices, running=running)

    return Budgets(path, build)


def build_meters(settings: UsageSettings) -> "Meters | None":
    """Build the meters, merged with those of other processes; return None if metrics are off."""
    if not settings.metrics:
        return None
    from usage_app.metrics.shared_files import SharedFiles  # noqa: PLC0415 - for who counts

    files = SharedFiles(settings.resolved_private_dir / "metrics")
    try:
        files.open()
    except OSError as error:
        logger.error("nothing is counted: %s can't be written to (%s)", files.directory, error)  # noqa: TRY400
        return None
    # The Prometheus client reads this when it is imported, and for each new file.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(files.directory)
    from usage_app.metrics.meters import Meters, counts_in_files  # noqa: PLC0415 - an extra

    if not counts_in_files():
        logger.error("metrics are of this process alone: prometheus_client was imported before")
    return Meters(files, version=VERSION, by_owner=settings.metrics_by_owner)


def build_traces(settings: UsageSettings) -> "TraceService | None":
    """Build the tracing of this process; return None if it is off. Opens nothing.

    Raises:
        ConfigurationError: An ``OTEL_`` variable has an unusable value.
    """
    if not settings.traces:
        return None
    from usage_app.traces.options import exporter_names  # noqa: PLC0415 - an extra
    from usage_app.traces.service import TraceService  # noqa: PLC0415 - an extra

    try:
        exporter_names(os.environ)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return TraceService(VERSION)


def build_observers(settings: UsageSettings) -> Observers:
    """Build the observers.

    The ledger comes before the budgets, which count a call that has ended by its line. What must
    not hear of a rejected call comes after them.
    """
    usage = build_usage(settings)
    budgets = build_budgets(settings, usage)
    model_calls: list[ModelCallObserver] = [usage.recorder, budgets, ModelCallLog()]
    turns: list[TurnObserver] = [TURN_LOG]
    if (meters := build_meters(settings)) is not None:
        model_calls.append(meters)
        turns.append(meters)
    if (traces := build_traces(settings)) is not None:  # last: a rejected call has no span
        model_calls.append(traces.observer)
        turns.insert(0, traces.observer)  # first: log lines include the span
    calls, of_turns = ModelCallObservers(model_calls), TurnObservers(turns)
    return Observers(calls, of_turns, usage, budgets, traces, meters)


def _observers(services: Services) -> Observers:
    observers = build_observers(services.get(UsageSettings))
    services.on_close(observers.aclose)
    return observers


FACTORIES: Mapping[type | str, Factory] = {
    Observers: _observers,
    Telemetry: lambda services: services.get(Observers),
    Usage: lambda services: services.get(Observers).usage,
    Budgets: lambda services: services.get(Observers).budgets,
    Prices: lambda services: services.get(Usage).prices,
    ModelCallObserver: lambda services: services.get(Observers).model_calls,
    ModelCallHeaders: lambda services: ModelCallHeaders(services.get(Observers).call_headers),
    TurnObserver: lambda services: services.get(Observers).turns,
    ToolCallHeaders: lambda services: ToolCallHeaders(services.get(Observers).tool_headers),
}
