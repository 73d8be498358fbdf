"""``manage.py models``: list and show models."""

import asyncio
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

import msgspec
from django.conf import settings as django_settings
from rich.table import Column, Table

from mochi_project.configuration.test_mode import scripted_model
from mochi_project.management.reports import ReportCommand
from mochi_project.wiring.services import build_services
from models_app.language_model import ModelInfo


class Command(ReportCommand):
    """List the models, or show one."""

    help = "List the models that can chat, or show one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare ``list`` and ``show``, each with ``--json``."""
        actions = self.add_actions(parser)
        listing = actions.add_parser("list", help="list all models")
        show = actions.add_parser("show", help="show one model")
        show.add_argument("name")
        self.add_json_flag(listing, show)

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the two actions."""
        name = options["name"] if action == "show" else None
        infos = asyncio.run(_ask(name))
        if options["json"]:
            value = {"models": infos} if name is None else infos[0]
            self.print_json(msgspec.to_builtins(value))
        elif name is None:
            self._print_table(infos)
        else:
            self._print_one(infos[0])

    def _print_table(self, infos: Sequence[ModelInfo]) -> None:
        # Not cropped, so that names can be copied.
        table = Table(Column("Model", no_wrap=True), "Size", "Parameters", "Context", "Can")
        for info in infos:
            table.add_row(
                info.name, _size(info), info.parameter_size, _context(info), _abilities(info)
            )
        self.print_rich(table)

    def _print_one(self, info: ModelInfo) -> None:
        table = Table.grid(padding=(0, 2))
        table.add_row("Model", info.name)
        table.add_row("Size", _size(info))
        table.add_row("Format", info.format)
        table.add_row("Family", info.family)
        table.add_row("Parameters", info.parameter_size)
        table.add_row("Quantization", info.quantization_level)
        table.add_row("Context", _context(info))
        table.add_row("Can", _abilities(info))
        self.print_rich(table)


async def _ask(name: str | None) -> list[ModelInfo]:
    async with scripted_model(django_settings.MOCHI) as settings:
        catalogue = build_services(settings).models
        try:
            return await catalogue.list() if name is None else [await catalogue.get(name)]
        finally:
            await catalogue.aclose()


def _size(info: ModelInfo) -> str:
    return f"{info.size_mb:,.1f} MB"


def _context(info: ModelInfo) -> str:
    return "unknown" if info.context_length is None else f"{info.context_length:,} tokens"


def _abilities(info: ModelInfo) -> str:
    return ", ".join(info.capabilities)
