"""What commands that report something have in common."""

from argparse import ArgumentParser
from collections.abc import Mapping
from functools import partial
from typing import IO, Any, cast

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console, RenderableType

from sessions_app.errors import MochiError
from sessions_app.format.codec import to_json
from sessions_app.format.json_pieces import json_pieces


class ReportCommand(BaseCommand):
    """Says what it found: laid out for people, or as JSON for scripts.

    An error of the domain ends it with the error's own sentence and exit code 1.
    """

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command."""
        try:
            return super().execute(*args, **options)
        except MochiError as error:
            raise CommandError(error.message) from error

    def add_json_flag(self, *parsers: ArgumentParser) -> None:
        """Declare ``--json``."""
        for parser in parsers:
            parser.add_argument("--json", action="store_true", help="print JSON, for scripts")

    def print_json(self, value: Mapping[str, Any]) -> None:
        """Print JSON-compatible values, indented; long lists may be ``Many``."""
        for piece in json_pieces(value, partial(to_json, readable=True)):
            self.stdout.write(piece.decode(), ending="")

    def print_rich(self, shown: RenderableType) -> None:
        """Print a table or a document; brackets and numbers in its texts mean nothing."""
        console = Console(file=cast("IO[str]", self.stdout), markup=False, highlight=False)
        console.print(shown)


def printable(text: str) -> str:
    """Take out control characters: what a model or a tool wrote must not steer the terminal."""
    return "".join(char for char in text if char.isprintable() or char in "\n\t")
