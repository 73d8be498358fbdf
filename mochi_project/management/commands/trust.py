"""``mochi-server trust``: trust a folder, revoke that, or list trusted folders."""

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings as django_settings
from django.core.management import CommandError
from rich.table import Column, Table

from mochi_project.configuration.loading import start_here
from mochi_project.console.reports import ReportCommand
from mochi_project.screen_text import printable
from mochi_project.trust.contents import PART_NAMES, Part, parts_of
from mochi_project.trust.decision import remember
from mochi_project.trust.records import TrustRecords, TrustRecordsError


class Command(ReportCommand):
    """Trust a folder, revoke its trust, or list the decisions."""

    help = (
        "Trust what a folder can execute (tools, agents, mcp.json) and its .env. Remembered for "
        "this user, outside of the folder."
    )
    data_dir = "unused"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the folder, ``--revoke``, ``--list`` and ``--json``."""
        self.add_directory_argument(
            parser, "the folder; where this is run, or the named data directory, if none is given"
        )
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--revoke", action="store_true", help="do not trust it any more")
        action.add_argument("--list", action="store_true", help="list what was decided")
        self.add_json_flag(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Trust, revoke or list, as the options say."""
        try:
            if options["list"]:
                self._list(as_json=options["json"])
            elif options["revoke"]:
                self._revoke(_folder(options["directory"]), as_json=options["json"])
            else:
                self._trust(_folder(options["directory"]), as_json=options["json"])
        except TrustRecordsError as error:
            raise CommandError(printable(f"{error}.")) from error

    def _trust(self, folder: Path, *, as_json: bool) -> None:
        if not folder.is_dir():
            raise CommandError(printable(f"{folder} is not a directory."))
        parts = parts_of(start_here().layout(folder))
        remember(folder, parts, trusted=True)
        if as_json:
            self.print_json({"folder": str(folder), "trusted": True, "parts": _files(parts)})
            return
        self.stdout.write(printable(f"{folder} is trusted:"))
        for name, files in _files(parts).items():
            self.stdout.write(printable(f"  {PART_NAMES[name]}: {', '.join(files)}"))
        if not parts:
            self.stdout.write("  there is nothing yet that could be executed")
        self.stdout.write(
            "A running server uses tools, agents and mcp.json from now on, and .env when it starts."
        )

    def _revoke(self, folder: Path, *, as_json: bool) -> None:
        was_known = TrustRecords().remove(folder)
        if as_json:
            self.print_json({"folder": str(folder), "trusted": False, "was_known": was_known})
        elif was_known:
            self.stdout.write(
                printable(f"{folder} is not trusted any more. Restart servers that run there.")
            )
        else:
            self.stdout.write(printable(f"{folder} was not trusted."))

    def _list(self, *, as_json: bool) -> None:
        records = TrustRecords().all()
        if as_json:
            self.print_json({"folders": msgspec.to_builtins(records)})
            return
        table = Table(Column("Folder", overflow="fold"), "Trusted", "Since", "Parts")
        for folder, record in records.items():
            parts = ", ".join(PART_NAMES.get(name, name) for name in record.parts)
            table.add_row(printable(folder), "yes" if record.trusted else "no", record.at, parts)
        self.print_table(table, empty="No folder yet: `mochi-server trust DIR` trusts one.")


def _folder(path: Path | None) -> Path:
    if path is not None:
        return path.expanduser().resolve()
    settings = django_settings.MOCHI
    if "data_dir" in settings.model_fields_set and not settings.test_mode:
        return Path(settings.resolved_data_dir)
    return Path.cwd().resolve()


def _files(parts: Mapping[str, Part]) -> dict[str, list[str]]:
    return {name: list(part.files) for name, part in parts.items()}
