"""Declares the base class of commands that print a report, for people or as JSON."""

from argparse import ArgumentParser
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from rich.console import Console, RenderableType
from rich.table import Table

from mochi_project.console.command import MochiCommand
from mochi_project.screen_text import printable, steering_escaped
from sessions_app.format.codec import to_json
from sessions_app.format.json_pieces import json_pieces
from sessions_app.list_query import SessionPage


class ReportCommand(MochiCommand):
    """Prints a report, formatted for people or as JSON for scripts."""

    def add_json_flag(self, *parsers: ArgumentParser) -> None:
        """Declare ``--json``."""
        for parser in parsers:
            parser.add_argument("--json", action="store_true", help="print JSON, for scripts")

    def add_directory_argument(self, parser: ArgumentParser, help_text: str) -> None:
        """Declare an optional directory."""
        parser.add_argument("directory", metavar="DIR", nargs="?", type=Path, help=help_text)

    def print_json(self, value: Mapping[str, Any]) -> None:
        """Print JSON-compatible values, indented; long lists may be ``LongList``."""
        for piece in json_pieces(value, partial(to_json, readable=True)):
            self.stdout.write(steering_escaped(piece.decode()), ending="")

    def print_text(self, text: str, *, ending: str = "") -> None:
        """Print a text as it is; on a terminal without what could steer that."""
        self.stdout.write(printable(text) if self.stdout.isatty() else text, ending=ending)

    def warn_of(self, page: SessionPage) -> None:
        """Print what a list of sessions lacks."""
        for item in page.unreadable:
            self.stderr.write(printable(f"{item.file} can't be read: {item.reason}"))
        if not page.complete:
            self.stderr.write("These are not all: the index of sessions is being made.")

    def print_table(self, table: Table, *, empty: str) -> None:
        """Print a table, or a sentence in the place of an empty frame."""
        self.print_rich(table if table.row_count else empty)

    def print_rich(self, content: RenderableType) -> None:
        """Print a table or a document, without markup in its texts."""
        console = Console(file=cast("IO[str]", self.stdout), markup=False, highlight=False)
        console.print(content)
