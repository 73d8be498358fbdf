"""``mochi-server models``: list and show models."""

import asyncio
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from django.conf import settings as django_settings
from rich.table import Column, Table

from mochi_project.app import build_services
from mochi_project.configuration.test_mode import scripted_model
from mochi_project.console.reports import ReportCommand
from mochi_project.screen_text import printable
from models_app.catalogue import ModelCatalogue
from models_app.language_model import ModelInfo
from models_app.schemas import ModelListOut, ModelOut

Answer = TypeVar("Answer")


class Command(ReportCommand):
    """List the models and the providers that did not answer, or show one model."""

    help = "List the models that can chat, or show one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare ``list`` and ``show``, each with ``--json``."""
        actions = self.add_actions(parser)
        listing = actions.add_parser("list", help="list the models of every configured provider")
        listing.add_argument(
            "--strict", action="store_true", help="fail if a provider could not be asked"
        )
        show = actions.add_parser("show", help="show one model")
        show.add_argument("name")
        self.add_json_flag(listing, show)

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the two actions."""
        if action == "list":
            self._list(options)
        else:
            self._show(options)

    def _list(self, options: Mapping[str, Any]) -> None:
        listing = asyncio.run(_ask(lambda models: models.listing()))
        if options["json"]:
            self.print_json(ModelListOut.from_orm(listing).model_dump())
        else:
            self._print_table(listing.models)
        for provider in listing.unavailable:
            self.stderr.write(printable(f"{provider.provider} did not answer: {provider.message}"))
        if listing.unavailable and options["strict"]:
            raise SystemExit(1)

    def _show(self, options: Mapping[str, Any]) -> None:
        info = asyncio.run(_ask(lambda models: models.get(options["name"])))
        if options["json"]:
            self.print_json(ModelOut.from_orm(info).model_dump())
        else:
            self._print_one(info)

    def _print_table(self, infos: Sequence[ModelInfo]) -> None:
        # Not cropped, so that names can be copied; 80 columns are enough for all four.
        table = Table(
            Column("Model", overflow="fold"),
            Column("Context", no_wrap=True, justify="right"),
            "Can",
            Column("Size", no_wrap=True, justify="right"),
            box=None,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for info in infos:
            table.add_row(
                printable(info.name),
                _tokens(info),
                printable(" ".join(name for name in info.capabilities if name != "completion")),
                f"{info.size_mb / 1000:,.1f} GB" if info.size_mb else "",
            )
        self.print_table(
            table, empty="No models yet: `ollama pull MODEL` installs one, or set a provider's key."
        )

    def _print_one(self, info: ModelInfo) -> None:
        table = Table.grid(padding=(0, 2))
        table.add_row("Model", printable(info.name))
        table.add_row("Size", _size(info))
        table.add_row("Format", printable(info.format or ""))
        table.add_row("Family", printable(info.family or ""))
        table.add_row("Parameters", printable(info.parameter_size or ""))
        table.add_row("Quantization", printable(info.quantization_level or ""))
        table.add_row("Context", _context(info))
        table.add_row("Can", printable(", ".join(info.capabilities)))
        self.print_rich(table)


async def _ask(question: Callable[[ModelCatalogue], Awaitable[Answer]]) -> Answer:
    async with scripted_model(django_settings.MOCHI) as settings:
        catalogue = build_services(settings).get(ModelCatalogue)
        try:
            return await question(catalogue)
        finally:
            await catalogue.aclose()


def _size(info: ModelInfo) -> str:
    return f"{info.size_mb:,.1f} MB"


def _context(info: ModelInfo) -> str:
    return "unknown" if info.context_length is None else f"{info.context_length:,} tokens"


def _tokens(info: ModelInfo) -> str:
    return "?" if info.context_length is None else f"{info.context_length:,}"
