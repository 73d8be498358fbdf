"""Provides usage, budgets, metrics and traces, which observe model calls, turns and tool calls."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
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
from usage_app.ledger import Ledger
from usage_app.observers import Observers
from usage_app.price_file import NAME
from usage_app.prices import PriceList
from usage_app.recorder import UsageRecorder
from usage_app.reports import UsageReports
from usage_app.settings import UsageSettings

if TYPE_CHECKING:
    from usage_app.budgets.gate import BudgetGate
    from usage_app.metrics.meters import Meters
    from usage_app.traces.service import TraceService

BUDGETS = "budgets.json"

logger = logging.getLogger(__name__)


def usage_dir(settings: AppSettings) -> Path:
    """Return the directory of the ledger."""
    return settings.resolved_state_dir / "usage"


def prices_path(settings: AppSettings) -> Path:
    """Return the path of the user's price list."""
    return settings.resolved_data_dir / NAME


def build_budgets(settings: AppSettings, ledger: Ledger, prices: PriceList) -> Budgets:
    """Build the observer; opens nothing."""
    path = settings.resolved_data_dir / BUDGETS

    def build() -> "BudgetGate":
        from usage_app.budgets.gate import BudgetGate  # noqa: PLC0415 - only with budgets
        from usage_app.budgets.running_calls import RunningCalls  # noqa: PLC0415

        running = RunningCalls(settings.resolved_state_dir / "budgets")
        return BudgetGate(path, ledger=ledger, prices=prices, running=running)

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


def _observers(services: Services) -> Observers:
    """Build the observers.

    The ledger comes before the budgets, which count a call that has ended by its line. What must
    not hear of a rejected call comes after them.
    """
    settings = services.get(UsageSettings)
    recorder = UsageRecorder(services.get(Ledger), services.get(PriceList))
    model_calls: list[ModelCallObserver] = [recorder, services.get(Budgets), ModelCallLog()]
    turns: list[TurnObserver] = [TURN_LOG]
    if (meters := build_meters(settings)) is not None:
        model_calls.append(meters)
        turns.append(meters)
    if (traces := build_traces(settings)) is not None:  # last: a rejected call has no span
        model_calls.append(traces.observer)
        turns.insert(0, traces.observer)  # first: log lines include the span
    calls, of_turns = ModelCallObservers(model_calls), TurnObservers(turns)
    observers = Observers(calls, of_turns, traces, meters)
    services.on_close(observers.aclose)
    return observers


def _budgets(services: Services) -> Budgets:
    settings = services.get(AppSettings)
    return build_budgets(settings, services.get(Ledger), services.get(PriceList))


FACTORIES: Mapping[type | str, Factory] = {
    Observers: _observers,
    Telemetry: lambda services: services.get(Observers),
    Ledger: lambda services: Ledger(usage_dir(services.get(AppSettings))),
    PriceList: lambda services: PriceList(prices_path(services.get(AppSettings))),
    Prices: lambda services: services.get(PriceList),
    UsageReports: lambda services: UsageReports(services.get(Ledger)),
    Budgets: _budgets,
    ModelCallObserver: lambda services: services.get(Observers).model_calls,
    ModelCallHeaders: lambda services: ModelCallHeaders(services.get(Observers).call_headers),
    TurnObserver: lambda services: services.get(Observers).turns,
    ToolCallHeaders: lambda services: ToolCallHeaders(services.get(Observers).tool_headers),
}
