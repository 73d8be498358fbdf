"""Plugs usage, budgets, metrics and traces into the server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mochi_project.app import MochiApp, Services


class UsageApp(MochiApp):
    """Describes the app."""

    name = "usage_app"
    routers = (
        "usage_app.api:router",
        "usage_app.budgets.api:router",
        "usage_app.metrics.api:router",
    )
    error_rules = (("/budgets$", "BUDGETS_INVALID"),)
    statuses = {
        "BUDGET_EXCEEDED": 402,
        "BUDGETS_INVALID": 500,
    }

    def wrapped(self, application: Any, configuration: Any) -> Any:
        """Return the application with the context of traces around it, if they are on."""
        if not configuration.traces:
            return application
        from usage_app.traces.propagation import IncomingTraces  # noqa: PLC0415 - an extra

        return IncomingTraces(application)

    async def findings(self, services: Services) -> Sequence[Any]:
        """Return what is found of usage, prices and budgets."""
        from usage_app.findings import budgets_finding, usage_findings  # noqa: PLC0415 - for few

        return [*usage_findings(services), budgets_finding(services)]

    def kept_files(self, configuration: Any) -> Mapping[str, Path]:
        """Return the ledger, the prices and the budgets."""
        from usage_app.services import BUDGETS, prices_path, usage_dir  # noqa: PLC0415 - for few

        return {
            "prices": prices_path(configuration),
            "usage": usage_dir(configuration),
            "budgets": configuration.resolved_data_dir / BUDGETS,
        }
