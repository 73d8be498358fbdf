"""Adds to ``mochi-server sessions`` what takes them in and out: export, import, copy."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, cast

from django.conf import settings as django_settings
from django.core.management.base import CommandError

from mochi_project.app import current_services, service
from mochi_project.console.command import Actions
from mochi_project.console.reports import ReportCommand
from mochi_project.screen_text import printable
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import StorageError
from sessions_app.service import SessionManager
from sessions_app.store.atomic import write_atomically
from transfer_app.copy_report import CopyReport
from transfer_app.exporting import AllExport
from transfer_app.import_command import FilesImport, add_import_arguments
from transfer_app.report import missing_sentence
from transfer_app.writing import kept_files, session_entries, zip_pieces


class SessionActions:
    """Exports, imports and copies sessions.

    Args:
        command: The command to which these actions belong.
    """

    def __init__(self, command: ReportCommand) -> None:
        self._command = command

    def declare(self, actions: Actions) -> Mapping[str, Callable[[Mapping[str, Any]], None]]:
        """Declare the actions, and return what runs each."""
        export = actions.add_parser("export", help="write a session, or all, as a file")
        export.add_argument("session_id", nargs="?")
        export.add_argument(
            "--all", action="store_true", help="write all sessions: as lines of JSON, or as a zip"
        )
        export.add_argument("--format", choices=("json", "markdown", "jsonl", "zip"), default=None)
        export.add_argument("--output", type=Path, help="a file to write to instead of the screen")
        export.add_argument(
            "--with-attachments",
            action="store_true",
            help="write a zip file of the session and its images and files; needs --output",
        )
        taking = actions.add_parser(
            "import", help="take in sessions that were exported here or by other programs"
        )
        add_import_arguments(taking)
        copy = actions.add_parser(
            "copy", help="copy all that is kept to an object store or back, while no server runs"
        )
        for place in ("source", "target"):
            copy.add_argument(
                place,
                metavar={"source": "FROM", "target": "TO"}[place],
                help="a data directory, or the URL of an object store (s3://, az://, gs://)",
            )
        copy.add_argument("--dry-run", action="store_true", help="copy nothing, say what would be")
        self._command.add_json_flag(export, taking, copy)
        self._command.making_actions = ("import",)
        return {"export": self._export, "import": self._import, "copy": self._copy}

    def _export(self, options: Mapping[str, Any]) -> None:
        if options["all"]:
            self._export_all(options)
            return
        if options["session_id"] is None or options["format"] in ("jsonl", "zip"):
            raise CommandError("Name a session, or write --all, as --format jsonl or zip.")
        if options["json"] and options["format"] == "markdown":
            raise CommandError("--json and --format markdown exclude each other.")
        if options["with_attachments"]:
            self._export_archive(options)
            return
        written_as: Any = options["format"] or "json"
        text = service(SessionManager).export(options["session_id"], format=written_as)
        if options["output"] is None:
            self._command.print_text(text)
            return
        _write(options["output"], text.encode())

    def _export_all(self, options: Mapping[str, Any]) -> None:
        wanted: Any = options["format"] or "jsonl"
        if options["session_id"] or options["json"] or options["with_attachments"]:
            raise CommandError("--all takes --format and --output alone.")
        if wanted not in ("jsonl", "zip"):
            raise CommandError("All sessions are written as --format jsonl or zip.")
        if wanted == "zip" and options["output"] is None:
            raise CommandError("Name the zip file to write: --output FILE.zip")
        export = AllExport(service(SessionManager), service(AttachmentService).store, anew=True)
        pieces = export.pieces(wanted)
        if options["output"] is not None:
            _write(options["output"], pieces)
        else:
            for piece in pieces:
                self._command.print_text(piece.decode())
        if export.warning:
            raise CommandError(f"{export.warning}.")

    def _export_archive(self, options: Mapping[str, Any]) -> None:
        if options["json"] or options["format"]:
            raise CommandError("--with-attachments has a format of its own: a zip file.")
        if options["output"] is None:
            raise CommandError("Name the zip file to write: --output FILE.zip")
        store = service(AttachmentService).store
        session = service(SessionManager).get(options["session_id"])
        files, missing = kept_files(session, store)
        _write(options["output"], zip_pieces(session_entries(session, files, store)))
        if missing:
            lacks = missing_sentence(missing, "It lacks what is not kept any more:")
            raise CommandError(printable(f"{options['output']} is written. {lacks}"))

    def _import(self, options: Mapping[str, Any]) -> None:
        work = FilesImport(current_services(), options, cast("IO[str]", self._command.stderr))
        work.run()
        if options["json"]:
            self._command.print_json(work.summary.as_json())
        else:
            for line in work.summary.lines():
                self._command.stdout.write(printable(line))
        if fault := " ".join(filter(None, [*work.faults, work.summary.fault()])):
            raise CommandError(printable(fault))

    def _copy(self, options: Mapping[str, Any]) -> None:
        try:  # no other command needs the libraries of object stores, which are an extra
            from transfer_app.copying import copy_all, places_of  # noqa: PLC0415
        except ImportError as error:
            raise CommandError("This needs an extra: `mochi-server docs cluster`.") from error
        dry_run = options["dry_run"]
        try:
            source, target = places_of(
                options["source"], options["target"], django_settings.MOCHI, dry_run=dry_run
            )
        except ValueError as error:
            text = str(error)
            raise CommandError(f"{text[:1].upper()}{text[1:]}.") from error
        report = CopyReport(dry_run=dry_run)
        for copied in copy_all(source, target, django_settings.MOCHI, dry_run=dry_run):
            report.add(copied)
        if options["json"]:
            self._command.print_json(report.as_json())
        else:
            for line in report.lines(target.name):
                self._command.stdout.write(printable(line))
        if fault := report.fault():
            raise CommandError(printable(fault))


def _write(path: Path, data: bytes | Iterable[bytes]) -> None:
    try:
        write_atomically(path.absolute(), data)
    except (OSError, StorageError) as error:
        raise CommandError(f"{path} can't be written: {error.__cause__ or error}") from error
