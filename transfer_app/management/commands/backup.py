"""Runs ``mochi-server backup``: copies all that must be kept, also while the server runs."""

import os
import shutil
from argparse import ArgumentParser
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.management import CommandError

from mochi_project.configuration.config import ServerSettings
from mochi_project.console.reports import ReportCommand
from mochi_project.screen_text import printable
from mochi_project.trust.decision import shown
from sessions_app.store.atomic import PRIVATE_DIRECTORY, make_private_directory
from transfer_app.backup import (
    copy_entry,
    counted_files,
    entries_of,
    places,
    require_files,
)


class Command(ReportCommand):
    """Copy the data to a new directory, which appears when it is complete."""

    help = (
        "Copy all that must be kept to a new directory: sessions, attachments, agents and their "
        "chats, tools, prompts, profiles, mcp.json, prices, usage and the workspace. The server "
        "may run meanwhile. Secrets (.env, and the rest of .mochi) are not copied."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the directory and ``--json``."""
        parser.add_argument("directory", metavar="DIR", type=Path, help="a directory to make")
        self.add_json_flag(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Copy, and print how many files of each part there are."""
        require_files(django_settings.MOCHI)
        target = options["directory"].expanduser().resolve()
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise CommandError(f"{target} is there already. Name a new directory.")
        try:
            counts = _back_up(django_settings.MOCHI, target)
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}.") from error
        if options["json"]:
            self.print_json({"directory": str(target), "files": dict(counts)})
            return
        for name, count in counts.items():
            self.stdout.write(counted_files(name, count))
        data_dir = django_settings.MOCHI.resolved_data_dir
        command = f"mochi-server --data-dir {shown(data_dir)} restore {shown(target)}"
        self.stdout.write(printable(f"\n{target} holds the backup. `{command}` puts it back."))


def _back_up(settings: ServerSettings, target: Path) -> Counter[str]:
    partial = target.with_name(f"{target.name}.partial")
    if partial.exists():
        raise CommandError(f"{partial} is there, of a backup that broke off. Remove it first.")
    make_private_directory(partial.parent)
    partial.mkdir(PRIVATE_DIRECTORY)  # never another user's, who would read it
    try:
        place = places(type(settings)(data_dir=partial))
        counts: Counter[str] = Counter()
        for entry in entries_of(settings, without=(target, partial)):
            with suppress(FileNotFoundError):  # deleted meanwhile
                copy_entry(entry, place(entry).path)
                counts[entry.part.name] += 1
        os.sync()
        if target.exists():
            target.rmdir()
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial)
        raise
    return counts
