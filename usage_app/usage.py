"""Builds the usage ledger and the price list of models."""

from dataclasses import dataclass
from pathlib import Path

from mochi_project.configuration.app_settings import AppSettings
from usage_app.ledger import Ledger
from usage_app.price_file import NAME
from usage_app.prices import PriceList
from usage_app.recorder import UsageRecorder
from usage_app.reports import UsageReports


@dataclass(frozen=True, slots=True)
class Usage:
    """Holds the usage services of this process.

    Attributes:
        ledger: The records of all processes of the data directory.
        prices: The prices of models.
        recorder: Records the model calls of this process.
        reports: Summarizes the ledger.
    """

    ledger: Ledger
    prices: PriceList
    recorder: UsageRecorder
    reports: UsageReports


def usage_dir(settings: AppSettings) -> Path:
    """Return the directory of the ledger."""
    return settings.resolved_state_dir / "usage"


def prices_path(settings: AppSettings) -> Path:
    """Return the path of the user's price list."""
    return settings.resolved_data_dir / NAME


def build_usage(settings: AppSettings) -> Usage:
    """Build the usage services; opens nothing and starts no thread."""
    ledger, prices = Ledger(usage_dir(settings)), PriceList(prices_path(settings))
    return Usage(ledger, prices, UsageRecorder(ledger, prices), UsageReports(ledger))
