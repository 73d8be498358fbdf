"""``mochi-server init``: write example tools, agents and prompts into a data directory."""

from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.management import CommandError

from mochi_project.configuration.loading import start_here
from mochi_project.console.reports import ReportCommand
from mochi_project.management.example_data import EXAMPLES, Copied, copy_examples
from mochi_project.screen_text import printable
from mochi_project.trust.contents import parts_of
from mochi_project.trust.decision import TrustDecision, judge, remember, shown
from mochi_project.trust.records import TrustRecordsError


class Command(ReportCommand):
    """Copy the packaged examples without overwriting anything."""

    help = (
        "Write example tools, agents, prompts and an MCP configuration into a data directory. "
        "Never overwrites anything, so it can be run again."
    )
    data_dir = "unused"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the directory and ``--json``."""
        self.add_directory_argument(
            parser, "the directory to fill; the configured data directory if none is named"
        )
        self.add_json_flag(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Copy, and print what was written and what was left."""
        target = _target(options["directory"])
        if (target / "mochi_project" / EXAMPLES).is_dir():
            raise CommandError(
                f"{target} holds the source code of mochi-server; data would be mixed with it. "
                "Name another directory: init DIR"
            )
        before = judge(start_here().layout(target.resolve()))
        try:
            copied = copy_examples(target)
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}.") from error
        if options["json"]:
            self.print_json({"directory": str(target), **asdict(copied)})
        else:
            self._print(target, copied)
        if not before.parts or (before.trusted and before.answered):
            self._trust(target.resolve())
        elif not options["json"]:
            self.stdout.write(
                printable(
                    f"{_why_not_trusted(before)}: look at it, then run "
                    f"`mochi-server trust {shown(before.folder)}`."
                )
            )

    def _trust(self, folder: Path) -> None:
        try:
            remember(folder, parts_of(start_here().layout(folder)), trusted=True)
        except TrustRecordsError as error:
            self.stderr.write(printable(f"mochi-server: {folder} is not trusted: {error}"))

    def _print(self, target: Path, copied: Copied) -> None:
        for name in copied.wrote:
            self.stdout.write(f"wrote  {target / name}")
        for name in copied.left:
            self.stdout.write(f"left   {target}/{name} (it was there)")
        if copied.wrote:
            self.stdout.write(
                f"\nStart the server with `mochi-server --data-dir {target}`.\n"
                f"`mochi-server --data-dir {target} tools list` shows the tools, `... agents list` "
                "the agents."
            )


def _why_not_trusted(before: TrustDecision) -> str:
    if before.trusted:
        return "This folder is trusted, but something in it changed since"
    return (
        "Started without --data-dir, it uses nothing of what can run there, because something that "
        "you have not trusted was there before"
    )


def _target(path: Path | None) -> Path:
    if path is not None:
        return path.expanduser().absolute()
    settings = django_settings.MOCHI
    if settings.test_mode:
        raise CommandError("In test mode data are deleted at the end. Name a directory: init DIR")
    return Path(settings.resolved_data_dir)
