"""Runs ``mochi-server sessions``: lists, shows, deletes and checks sessions."""

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

from django.core.management.base import CommandError
from rich.markdown import Markdown
from rich.table import Column, Table

from mochi_project.app import mochi_apps, service
from mochi_project.console.reports import ReportCommand
from mochi_project.screen_text import printable
from sessions_app.deletion import Deletion, SessionDeletion
from sessions_app.export import to_markdown
from sessions_app.format.to_json import many_sessions, session_detail
from sessions_app.service import SessionManager

Action = Callable[[Mapping[str, Any]], None]


class Command(ReportCommand):
    """List, show, delete and check sessions, and do what other apps add."""

    help = "List, show, delete or check sessions, or do another of the actions below."
    of_owner = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the subcommands, each with ``--json``."""
        actions = self.add_actions(parser)
        listing = actions.add_parser("list", help="list sessions, most recently updated first")
        listing.add_argument("--limit", type=int, default=None, help="how many at most")
        listing.add_argument(
            "--search", default="", help="text in title, preview, summary or topics"
        )
        show = actions.add_parser("show", help="show a session with its messages")
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
        self.add_json_flag(listing, show, delete, check)
        self._run: dict[str, Action] = {
            "list": self._list,
            "show": self._show,
            "delete": self._delete,
            "check": self._check,
        }
        for name in (name for app in mochi_apps() for name in app.session_actions):
            self._run |= resolve_name(name)(self).declare(actions)

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the subcommands."""
        self._run[action](options)

    def _list(self, options: Mapping[str, Any]) -> None:
        if options["limit"] is not None and options["limit"] < 1:
            raise CommandError("--limit must be at least 1.")
        page = service(SessionManager).list(limit=options["limit"], q=options["search"])
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
        none = (
            "No session fits."
            if options["search"]
            else "No sessions yet: `mochi-server chat` begins one."
        )
        self.print_table(table, empty=none)
        if len(page.sessions) < page.total:
            self.stdout.write(f"{len(page.sessions)} of {page.total} sessions")
        self.warn_of(page)

    def _show(self, options: Mapping[str, Any]) -> None:
        session = service(SessionManager).get(options["session_id"])
        if options["json"]:
            self.print_json(session_detail(session))
        else:
            self.print_rich(Markdown(printable(to_markdown(session))))

    def _delete(self, options: Mapping[str, Any]) -> None:
        named = list(dict.fromkeys(options["session_ids"]))
        if not options["yes"]:
            self._ask_person(named)
        deletion = service(SessionDeletion)
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

    def _ask_person(self, session_ids: Sequence[str]) -> None:
        what = f"{len(session_ids)} sessions"
        if len(session_ids) == 1:
            count = len(service(SessionManager).get(session_ids[0]).messages)
            messages = "message" if count == 1 else "messages"
            what = f"session {session_ids[0]} with {count} {messages}"
        question = f"Delete {what} for good?"
        if not self.confirm(question, unasked=f"This would delete {what}"):
            raise CommandError("Not deleted.")

    def _check(self, options: Mapping[str, Any]) -> None:
        report = service(SessionManager).check()
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


def _problem(file: str, reason: str) -> dict[str, str]:
    return {"file": file, "reason": reason}
