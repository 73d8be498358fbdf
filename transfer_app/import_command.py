"""Imports files for ``mochi-server sessions import``, with a progress bar on a terminal."""

import asyncio
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

from rich.console import Console

from mochi_project.app import Services
from mochi_project.screen_text import printable
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import MochiError, ValidationFailed
from sessions_app.service import SessionManager
from transfer_app.archive_import import ImportedArchive, SessionImporter
from transfer_app.bounded_zip import Limits
from transfer_app.entries import Problem
from transfer_app.formats.sources import SOURCES, ImportOptions
from transfer_app.importing import ConversationImport
from transfer_app.opening import open_import
from transfer_app.report import ImportSummary

_MOST_FILES = 400_000
_DIRECTORY_BYTES = 64 << 20


def add_import_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="a zip file, JSON, or lines of JSON: `mochi-server docs import` says whose",
    )
    parser.add_argument(
        "--from",
        dest="source",
        choices=SOURCES,
        default="auto",
        help="the program that wrote them; recognised by their shape unless given",
    )
    parser.add_argument(
        "--branches",
        action="store_true",
        help="make sessions of the branches too that are not shown, as forks",
    )
    parser.add_argument("--model", help="the model of all sessions, whatever the files say")
    parser.add_argument("--dry-run", action="store_true", help="write nothing, say what would be")


class FilesImport:
    """Takes files in, one after the other.

    Args:
        services: Where sessions and their attachments go.
        options: The options of the command.
        screen: Where a progress bar is shown, if it is a terminal.

    Attributes:
        summary: What became of everything.
        faults: Why files were not taken in, or not as a whole.
    """

    def __init__(self, services: Services, options: Mapping[str, Any], screen: IO[str]) -> None:
        self._services = services
        self._files: Sequence[Path] = options["files"]
        self._screen = screen
        self._options = ImportOptions(
            source=options["source"],
            all_branches=options["branches"],
            model=options["model"],
            default_model=cache(lambda: asyncio.run(_default_model(services))),
            dry_run=options["dry_run"],
        )
        self.summary = ImportSummary(dry_run=options["dry_run"])
        self.faults: list[str] = []

    def run(self) -> None:
        """Take all of them in, as far as that is possible."""
        for path in self._files:
            try:
                self._take(path)
            except ValidationFailed as error:
                self.faults.append(
                    error.message if len(self._files) == 1 else f"{path}: {error.message}"
                )
            except (MochiError, OSError) as error:  # so it will be with the others
                told = self.summary.broken_off()
                self.faults.append(f"{_reason(error, path)} {told}")
                return

    def _take(self, path: Path) -> None:
        attachments = self._services.get(AttachmentService)
        limits = Limits(
            attachment_bytes=attachments.max_bytes,
            entries=_MOST_FILES,
            directory_bytes=_DIRECTORY_BYTES,
        )
        with path.open("rb") as file:
            work = open_import(
                file,
                path.name,
                sessions=self._services.get(SessionManager),
                store=attachments.store,
                limits=limits,
                options=self._options,
            )
            self.summary.leave_out(work.left_out)
            try:
                for found in _with_progress(work, path.name, self._screen):
                    self.summary.add(found)
            finally:
                self.summary.attachments_added += work.attachments_added


async def _default_model(services: Services) -> str | None:
    try:
        return await services.get(DefaultModel).name_if_known()
    finally:
        await services.get(ModelCatalogue).aclose()


def _reason(error: MochiError | OSError, path: Path) -> str:
    """Return why an import broke off, as a sentence."""
    if isinstance(error, MochiError):
        return error.message
    return f"{error.filename or path}: {error.strerror or error}."


def _with_progress(
    work: SessionImporter | ConversationImport, name: str, screen: IO[str]
) -> Iterator[ImportedArchive | Problem]:
    """Yield what an import does, and show on a terminal how far it is."""
    if not screen.isatty():
        yield from work.run()
        return
    from rich.progress import Progress  # noqa: PLC0415 - for terminals alone

    with Progress(console=Console(file=screen, markup=False), transient=True) as bar:
        task = bar.add_task(printable(name).replace("[", "("), total=None)
        for found in work.run():
            done, total = work.progress
            bar.update(task, completed=done, total=total)
            yield found
