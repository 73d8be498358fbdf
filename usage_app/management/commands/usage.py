"""``mochi-server usage``: tokens and costs, as a table and a chart."""

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.core.management import CommandError
from pydantic import ValidationError
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from mochi_project.app import current_services
from mochi_project.console.reports import ReportCommand
from mochi_project.principal import principal
from mochi_project.screen_text import printable
from models_app.prices import money
from sessions_app.errors import StorageUnavailable, ValidationFailed
from usage_app.findings import budget_lines
from usage_app.prices import PriceList
from usage_app.report import DIMENSIONS, Report, ReportQuery, Sums
from usage_app.reports import UsageReports
from usage_app.schemas import UsageParams, report_to_json

_BAR_WIDTH = 40
_CENT = Decimal("0.01")
_SMALL = Decimal("0.0001")


class Command(ReportCommand):
    """Report tokens and costs."""

    of_owner = True
    help = (
        "Report the tokens and the costs of all model calls of some days (UTC), as they were when "
        "they were made. Prices of your own are in prices.json."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the days and the groups."""
        parser.add_argument("--from", metavar="DAY", help="the first day; else that of the month")
        parser.add_argument("--to", metavar="DAY", help="the last day; else today")
        parser.add_argument(
            "--by",
            metavar="WHAT,...",
            default="day,model",
            help=f"how to group: some of {', '.join(DIMENSIONS)} (day,model)",
        )
        parser.add_argument("--all", action="store_true", help="the calls of all owners of data")
        self.add_json_flag(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        """Sum up, and print."""
        services = current_services()
        prices = services.get(PriceList)
        prices.refresh()
        if prices.problem is not None:
            self.stderr.write(printable(prices.problem))
        owner = None if options["all"] else principal().owner
        try:
            report = services.get(UsageReports).report(_query(options, owner))
        except (ValidationFailed, StorageUnavailable) as error:
            raise CommandError(error.message) from error
        if options["json"]:
            self.print_json(report_to_json(report))
            return
        for shown in _renderables(report):
            self.print_rich(shown)
        if report.total.estimated:
            self.print_rich(f"Of {report.total.estimated:,} calls the tokens are estimated.")
        for line in budget_lines(services, owner):
            self.print_rich(Text(printable(line)))
        if not report.groups:
            self.stderr.write("No model was called.")


def _query(options: Mapping[str, Any], owner: str | None) -> ReportQuery:
    given = {name: options[name] for name in ("from", "to") if options[name] is not None}
    try:
        return UsageParams.model_validate({**given, "group_by": options["by"]}).query(owner)
    except ValidationError as error:
        [name] = error.errors()[0]["loc"][-1:]
        flag = "by" if name == "group_by" else name
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise CommandError(f"--{flag}: {message}.") from error


def _renderables(report: Report) -> Iterator[RenderableType]:
    yield _table(report)
    days = _sums_of_days(report)
    if len(days) > 1:
        yield Text.assemble("\n", *_chart(days))


def _table(report: Report) -> Table:
    table = Table(show_footer=True)
    names = report.query.group_by
    for position, name in enumerate(names):
        table.add_column(name, "total" if position == 0 else "", overflow="fold")
    for head, foot in zip(_HEADS, _cells(report.total), strict=True):
        table.add_column(head, foot, justify="right")
    for values, sums in report.groups:
        table.add_row(*(printable(value or "-") for value in values), *_cells(sums))
    return table


_HEADS = ("requests", "input", "cached", "output", "USD")


def _cells(sums: Sums) -> list[str]:
    counts = (sums.requests, sums.input, sums.cached, sums.output)
    return [*(f"{count:,}" for count in counts), _cost(sums)]


def _cost(sums: Sums) -> str:
    """Return a cost as it is shown: what is known of it, if it is not known as a whole."""
    if sums.unpriced and not sums.priced:
        return "unknown"
    shown = sums.cost.quantize(_CENT if sums.cost >= 1 else _SMALL)
    text = f"{shown:f}" if shown else money(sums.cost)
    return f"{text} + ?" if sums.unpriced else text


def _sums_of_days(report: Report) -> dict[str, Sums]:
    if "day" not in report.query.group_by:
        return {}
    place = list(report.query.group_by).index("day")
    days: dict[str, Sums] = {}
    for values, sums in report.groups:
        days.setdefault(values[place] or "", Sums()).merge(sums)
    return dict(sorted(days.items()))


def _chart(days: Mapping[str, Sums]) -> Iterator[tuple[str, str]]:
    """Yield a bar for each day: of its cost, or of its tokens where nothing cost anything."""
    costs = [sums.cost for sums in days.values()]
    is_cost = any(costs)
    sizes: Sequence[Decimal] = (
        costs if is_cost else [Decimal(sums.input + sums.output) for sums in days.values()]
    )
    most = max(sizes) or Decimal(1)
    for (day, sums), size in zip(days.items(), sizes, strict=True):
        bar = "█" * max(round(size / most * _BAR_WIDTH), 1 if size else 0)
        said = f"{_cost(sums)} USD" if is_cost else f"{size:,} tokens"
        yield f"{day}  ", "dim"
        yield bar, "cyan"
        yield f"{' ' if bar else ''}{said}\n", ""
