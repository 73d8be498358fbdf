"""Runs ``mochi-server restore``: puts a backup back."""

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.management import CommandError

from mochi_project.configuration.config import ServerSettings
from mochi_project.console.reports import ReportCommand
from mochi_project.screen_text import printable
from mochi_project.trust.decision import shown
from sessions_app.errors import MochiError
from sessions_app.ids_and_clock import is_session_id
from transfer_app.backup import (
    Entry,
    busy_sessions,
    copy_entry,
    counted_files,
    entries_of,
    parts_elsewhere,
    parts_of,
    places,
    require_files,
)
from transfer_app.copy_report import listed


class Command(ReportCommand):
    """Copy the files of a backup to where the configuration has them."""

    help = (
        "Put a backup back into the data directory. Files that are there stay as they are: without "
        "--overwrite nothing is restored if one of them is in the backup, too."
    )
    data_dir = "unused"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the directory, ``--overwrite`` and ``--json``."""
        parser.add_argument("directory", metavar="DIR", type=Path, help="the backup")
        parser.add_argument(
            "--overwrite", action="store_true", help="replace files that are there already"
        )
        self.add_json_flag(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Copy, and print how many files of each part there are."""
        source = options["directory"].expanduser().resolve()
        settings = django_settings.MOCHI
        require_files(settings)
        if settings.test_mode:
            raise CommandError("In test mode data are deleted at the end.")
        place, backup = places(settings), type(settings)(data_dir=source)
        if linked := parts_elsewhere(backup):
            raise CommandError(f"{listed(linked)} of {source}: a link leads out of the backup.")
        entries = list(entries_of(backup))
        if not entries:
            raise CommandError(f"{source} is not a backup: it holds nothing to restore.")
        paths = [place(entry).path for entry in entries]
        taken = [path for path in paths if path.is_symlink() or path.exists()]
        if taken and not options["overwrite"]:
            raise CommandError(
                f"{listed(taken)} would be replaced. Pass --overwrite, or name another --data-dir."
            )
        storages = [part.storage for part in parts_of(settings) if part.storage]
        if busy := [f"session {each}" for each in busy_sessions(storages)]:
            raise CommandError(f"{listed(busy)} is being answered. Stop the server first.")
        counts: Counter[str] = Counter()
        try:
            for entry in entries:
                with _replacing(place(entry)):
                    copy_entry(entry, place(entry).path)
                counts[entry.part.name] += 1
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}.") from error
        self._report(settings, counts, as_json=options["json"])

    def _report(self, settings: ServerSettings, counts: Counter[str], *, as_json: bool) -> None:
        target = settings.resolved_data_dir
        if as_json:
            self.print_json({"directory": str(target), "files": dict(counts)})
            return
        for name, count in counts.items():
            self.stdout.write(counted_files(name, count))
        command = f"mochi-server --data-dir {shown(target)} doctor"
        self.stdout.write(printable(f"\n{target} has them again. `{command}` checks it."))


@contextmanager
def _replacing(target: Entry) -> Iterator[None]:
    """Forget the turns of a session that is replaced, as if it had been deleted before.

    Otherwise the answer of a turn that died would be added to the copy, and clients would go on
    with turns, and be asked about calls, that the copy does not have. What is no session that is
    there is left alone.
    """
    storage, session_id = target.part.storage, target.path.stem
    if storage is None or not is_session_id(session_id) or not target.path.exists():
        yield
        return
    # First, so that whatever happens in between, the session there has all of its turn.
    with suppress(MochiError):  # it can't be read, say: what it can't take is set aside
        storage.recovery.seal(session_id)
    yield
    storage.recovery.forget(session_id)
    storage.confirmation_store.discard_session(session_id)
