"""``mochi-server prompts``: list and show system prompt files."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.table import Table

from mochi_project.app import current_services
from mochi_project.console.reports import ReportCommand
from mochi_project.screen_text import printable
from prompts_app.prompts import Prompt, PromptSummary
from prompts_app.service import SystemPromptService


class Command(ReportCommand):
    """List the prompt files, or show one."""

    of_owner = True
    help = "List the system prompt files, or show one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare ``list`` and ``show``, each with ``--json``."""
        actions = self.add_actions(parser)
        listing = actions.add_parser("list", help="list all prompts")
        show = actions.add_parser("show", help="show the text of one prompt")
        show.add_argument("filename")
        self.add_json_flag(listing, show)

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the two actions."""
        prompts = current_services().get(SystemPromptService)
        if action == "list":
            self._list(prompts.list(), as_json=options["json"])
        else:
            self._show(prompts.get(options["filename"]), as_json=options["json"])

    def _list(self, summaries: Sequence[PromptSummary], *, as_json: bool) -> None:
        if as_json:
            self.print_json({"prompts": msgspec.to_builtins(summaries)})
            return
        table = Table("File", "Words", "Preview")
        for summary in summaries:
            table.add_row(summary.filename, str(summary.word_count), printable(summary.preview))
        self.print_table(table, empty="No prompts yet: `mochi-server init` writes examples.")

    def _show(self, prompt: Prompt, *, as_json: bool) -> None:
        if as_json:
            self.print_json(msgspec.to_builtins(prompt))
            return
        self.print_text(prompt.content, ending="\n")
