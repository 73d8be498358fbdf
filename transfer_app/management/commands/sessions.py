"""``mochi-server sessions``: list, show, export, import, delete, check and copy sessions."""

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from django.conf import settings as django_settings
from django.core.management.base import CommandError
from rich.markdown import Markdown
from rich.table import Column, Table

from mochi_project.app import current_services
from mochi_project.console.reports import ReportCommand
from mochi_project.screen_text import printable
from sessions_app.attachments.service import AttachmentService
from sessions_app.deletion import Deletion, SessionDeletion
from sessions_app.errors import StorageError
from sessions_app.export import to_markdown
from sessions_app.format.to_json import many_sessions, session_detail
from sessions_app.service import SessionManager
from sessions_app.store.atomic import write_atomically
from transfer_app.copy_report import CopyReport
from transfer_app.exporting import AllExport
from transfer_app.import_command import FilesImport, add_import_arguments
from transfer_app.import_report import ImportReport, missing_sentence
from transfer_app.writing import SessionExport


class Command(ReportCommand):
    """List, show, export, import, delete, check and copy sessions."""

    help = "List, show, export, import, delete, check or copy sessions."
    making_actions = ("import",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the subcommands, each with ``--json``."""
        actions = self.add_actions(parser)
        listing = actions.add_parser("list", help="list sessions, most recently updated first")
        listing.add_argument("--limit", type=int, default=None, help="how many at most")
        listing.add_argument(
            "--search", default="", help="text in title, preview, summary or topics"
        )
        show = actions.add_parser("show", help="show a session with its messages")
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
        delete = actions.add_parser("delete", help="delete sessions for good, after asking")
        delete.add_argument("session_ids", metavar="session_id", nargs="+")
        delete.add_argument("--yes", action="store_true", help="do not ask")
        delete.add_argument(
            "--agents", action="store_true", help="delete the sessions of agents it called, too"
        )
        delete.add_argument(
            "--force", action="store_true", help="cancel turns that run on them first"
        )
        check = actions.add_parser("check", help="read every session whole; fails if one is broken")
        show.add_argument("session_id")
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
        self.add_json_flag(listing, show, export, taking, delete, check, copy)

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the subcommands."""
        if action == "copy":
            self._copy(options)
            return
        run: Mapping[str, Callable[[SessionManager, Mapping[str, Any]], None]] = {
            "list": self._list,
            "show": self._show,
            "export": self._export,
            "import": self._import,
            "delete": self._delete,
            "check": self._check,
        }
        run[action](current_services().get(SessionManager), options)

    def _list(self, sessions: SessionManager, options: Mapping[str, Any]) -> None:
        if options["limit"] is not None and options["limit"] < 1:
            raise CommandError("--limit must be at least 1.")
        page = sessions.list(limit=options["limit"], q=options["search"])
        if options["json"]:
            self.print_json(
                {
                    "sessions": many_sessions(page.sessions),
                    "total": page.total,
                    "unreadable": [_problem(item.file, item.reason) for item in page.unreadable],
                    "complete": page.complete,
                }
            )
            return
        table = Table("Session", "Model", "Updated", "Messages", "Title")
        for metadata in page.sessions:
            table.add_row(
                metadata.session_id,
                metadata.model,
                metadata.updated_at[:16].replace("T", " "),
                str(metadata.message_count),
                " ".join(printable(metadata.title or metadata.preview or "").split()),
            )
        self.print_rich(table)
        if len(page.sessions) < page.total:
            self.stdout.write(f"{len(page.sessions)} of {page.total} sessions")
        self.warn_of(page)

    def _show(self, sessions: SessionManager, options: Mapping[str, Any]) -> None:
        session = sessions.get(options["session_id"])
        if options["json"]:
            self.print_json(session_detail(session))
        else:
            self.print_rich(Markdown(printable(to_markdown(session))))

    def _export(self, sessions: SessionManager, options: Mapping[str, Any]) -> None:
        if options["all"]:
            self._export_all(sessions, options)
            return
        if options["session_id"] is None or options["format"] in ("jsonl", "zip"):
            raise CommandError("Name a session, or write --all, as --format jsonl or zip.")
        if options["json"] and options["format"] == "markdown":
            raise CommandError("--json and --format markdown exclude each other.")
        if options["with_attachments"]:
            self._export_archive(sessions, options)
            return
        text = sessions.export(options["session_id"], format=options["format"] or "json")
        if options["output"] is None:
            self.print_text(text)
            return
        _write(options["output"], text.encode())

    def _export_all(self, sessions: SessionManager, options: Mapping[str, Any]) -> None:
        wanted: Any = options["format"] or "jsonl"
        if options["session_id"] or options["json"] or options["with_attachments"]:
            raise CommandError("--all takes --format and --output alone.")
        if wanted not in ("jsonl", "zip"):
            raise CommandError("All sessions are written as --format jsonl or zip.")
        if wanted == "zip" and options["output"] is None:
            raise CommandError("Name the zip file to write: --output FILE.zip")
        export = AllExport(sessions, current_services().get(AttachmentService).store, anew=True)
        pieces = export.pieces(wanted)
        if options["output"] is not None:
            _write(options["output"], pieces)
        else:
            for piece in pieces:
                self.print_text(piece.decode())
        if export.warning:
            raise CommandError(f"{export.warning}.")

    def _export_archive(self, sessions: SessionManager, options: Mapping[str, Any]) -> None:
        if options["json"] or options["format"]:
            raise CommandError("--with-attachments has a format of its own: a zip file.")
        if options["output"] is None:
            raise CommandError("Name the zip file to write: --output FILE.zip")
        store = current_services().get(AttachmentService).store
        export = SessionExport(sessions.get(options["session_id"]), store)
        _write(options["output"], export.pieces())
        if export.missing:
            lacks = missing_sentence(export.missing, "It lacks what is not kept any more:")
            raise CommandError(printable(f"{options['output']} is written. {lacks}"))

    def _import(self, sessions: SessionManager, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        work = FilesImport(current_services(), options, cast("IO[str]", self.stderr))
        work.run()
        report = ImportReport(work.summary)
        if options["json"]:
            self.print_json(work.summary.as_json())
        else:
            for line in report.lines():
                self.stdout.write(printable(line))
        if fault := " ".join(filter(None, [*work.faults, report.fault()])):
            raise CommandError(printable(fault))

    def _delete(self, sessions: SessionManager, options: Mapping[str, Any]) -> None:
        named = list(dict.fromkeys(options["session_ids"]))
        if not options["yes"]:
            self._ask_person(sessions, named)
        deletion = current_services().get(SessionDeletion)
        how = {"force": options["force"], "agents": options["agents"]}
        if len(named) == 1:
            asyncio.run(deletion.delete(named[0], **how))
            if options["json"]:
                self.print_json({"deleted": named[0]})
            else:
                self.stdout.write(f"Session {named[0]} is deleted.")
            return
        self._report(asyncio.run(deletion.delete_many(named, **how)), as_json=options["json"])

    def _report(self, removed: Sequence[Deletion], *, as_json: bool) -> None:
        """Say what became of several sessions; one that was not there is as good as deleted."""
        if as_json:
            self.print_json({each.session_id: each.outcome for each in removed})
        else:
            for each in removed:
                said = "is deleted" if each.outcome == "deleted" else "is not there"
                said = f"stays: {each.error.message}" if each.error else f"{said}."
                self.stdout.write(printable(f"Session {each.session_id} {said}"))
        if left := sum(each.error is not None for each in removed):
            raise CommandError(f"{left} of {len(removed)} sessions could not be deleted.")

    def _copy(self, options: Mapping[str, Any]) -> None:
        try:  # no other command needs the libraries of object stores, which are an extra
            from transfer_app.copying import copy_all, places_of  # noqa: PLC0415
        except ImportError as error:
            raise CommandError("This needs `pip install 'mochi-server[cluster]'`.") from error
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
            self.print_json(report.as_json())
        else:
            for line in report.lines(target.name):
                self.stdout.write(printable(line))
        if fault := report.fault():
            raise CommandError(printable(fault))

    def _ask_person(self, sessions: SessionManager, session_ids: Sequence[str]) -> None:
        what = f"{len(session_ids)} sessions"
        if len(session_ids) == 1:
            count = len(sessions.get(session_ids[0]).messages)
            messages = "message" if count == 1 else "messages"
            what = f"session {session_ids[0]} with {count} {messages}"
        question = f"Delete {what} for good?"
        if not self.confirm(question, unasked=f"This would delete {what}"):
            raise CommandError("Not deleted.")

    def _check(self, sessions: SessionManager, options: Mapping[str, Any]) -> None:
        report = sessions.check()
        problems = [_problem(item.file, item.reason) for item in report.problems]
        if options["json"]:
            self.print_json({"checked": report.checked, "problems": problems})
        elif problems:
            table = Table(Column("File", overflow="fold"), Column("Problem", overflow="fold"))
            for problem in problems:
                table.add_row(printable(problem["file"]), printable(problem["reason"]))
            self.print_rich(table)
        else:
            self.stdout.write(f"All sessions can be read ({report.checked}).")
        if problems:
            raise CommandError(f"{len(problems)} of {report.checked} sessions can't be read.")


def _write(path: Path, data: bytes | Iterable[bytes]) -> None:
    try:
        write_atomically(path.absolute(), data)
    except (OSError, StorageError) as error:
        raise CommandError(f"{path} can't be written: {error.__cause__ or error}") from error


def _problem(file: str, reason: str) -> dict[str, str]:
    return {"file": file, "reason": reason}
