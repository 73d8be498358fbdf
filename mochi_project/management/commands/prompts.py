"""``manage.py prompts``: look at the system prompt files."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import IO, Any, cast

import msgspec
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.table import Table

from mochi_project.services import get_services
from prompts_app.prompts import Prompt, PromptSummary
from sessions_app.errors import MochiError


class Command(BaseCommand):
    """List the prompt files, or show one."""

    help = "List the system prompt files, or show one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare ``list`` and ``show``, each with ``--json``."""
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="list all prompts")
        show = actions.add_parser("show", help="show the text of one prompt")
        show.add_argument("filename")
        for action in (listing, show):
            action.add_argument("--json", action="store_true", help="print JSON, for scripts")

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the two actions."""
        prompts = get_services().prompts
        try:
            if action == "list":
                self._list(prompts.list(), as_json=options["json"])
            else:
                self._show(prompts.get(options["filename"]), as_json=options["json"])
        except MochiError as error:
            raise CommandError(error.message) from error

    def _list(self, summaries: Sequence[PromptSummary], *, as_json: bool) -> None:
        if as_json:
            self._print_json({"prompts": summaries})
            return
        table = Table("File", "Words", "Preview")
        for summary in summaries:
            table.add_row(summary.filename, str(summary.word_count), summary.preview)
        Console(file=cast("IO[str]", self.stdout), markup=False, highlight=False).print(table)

    def _show(self, prompt: Prompt, *, as_json: bool) -> None:
        if as_json:
            self._print_json(prompt)
            return
        self.stdout.write(prompt.content)

    def _print_json(self, value: object) -> None:
        self.stdout.write(msgspec.json.format(msgspec.json.encode(value)).decode())
