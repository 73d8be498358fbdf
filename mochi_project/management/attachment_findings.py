"""Checks for ``mochi-server doctor`` whether images and files are there, and whole."""

from collections.abc import Iterator, Sequence

from chat.conversation_storage import SessionKind, Storages
from mochi_project.app import Services
from mochi_project.console.findings import Finding
from mochi_project.screen_text import printable
from sessions_app.attachments.integrity import AttachmentReport, check_attachments
from sessions_app.attachments.service import AttachmentService
from sessions_app.service import SessionManager
from sessions_app.services import session_directories
from sessions_app.settings import SessionsSettings

_MOST_NAMED = 5


def attachments_finding(services: Services) -> Finding:
    """Report what is damaged, gone, or left half-written; the newest files and sessions are read.

    Raises:
        StorageError: The store can't be asked.
    """
    settings, agents = services.get(SessionsSettings), services.get(Storages)[SessionKind.AGENT]
    repositories = [services.get(SessionManager).repository, agents.repository]
    report = check_attachments(services.get(AttachmentService).store, repositories)
    directories = session_directories(settings)
    absent = directories.look().absent if directories else ()
    notes = "; ".join([*_notes(report), *_notes_on_absent(absent)])
    if notes:
        return Finding("attachments", "note", printable(notes))
    counted = f"{report.files} files with {report.size:,} bytes"
    return Finding("attachments", "ok", f"{counted}; the newest {report.hashed} are whole")


def _notes(report: AttachmentReport) -> Iterator[str]:
    if report.damaged:
        yield (
            "damaged, so that models and clients do not get them whole (upload them again, or "
            f"restore them): {_named(report.damaged)}"
        )
    if report.missing:
        missing = [f"{id_} (session {session})" for id_, session in report.missing.items()]
        yield f"not there although messages have them (upload them again): {_named(missing)}"
    if report.unfinished:
        yield (
            f"{report.unfinished} uploads were broken off and left half a file, which is removed "
            "after a day"
        )


def _notes_on_absent(absent: Sequence[str]) -> Iterator[str]:
    if absent:
        yield (
            "unused files are kept, because sessions that may use them are not there (mount their "
            "directory; if it is gone for good, or was moved, remove its record, which is in "
            f"brackets): {_named(absent)}"
        )


def _named(items: Sequence[str]) -> str:
    more = len(items) - _MOST_NAMED
    return ", ".join(items[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
