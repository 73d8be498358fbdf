"""Opens files to import: archives of this server, and other programs' exports."""

from typing import BinaryIO

from sessions_app.attachments.store import AttachmentStore
from sessions_app.service import SessionManager
from sessions_app.transfer.archive_import import ArchiveImport
from sessions_app.transfer.bounded_zip import BoundedZip, Limits
from sessions_app.transfer.export_file import ExportFile, holds_sessions, is_zip
from sessions_app.transfer.importing import ConversationImport, ImportOptions
from sessions_app.transfer.reading import SessionArchive


def open_import(
    file: BinaryIO,
    name: str,
    *,
    sessions: SessionManager,
    store: AttachmentStore,
    limits: Limits,
    options: ImportOptions,
) -> ArchiveImport | ConversationImport:
    """Open a file that sessions are taken in of, whatever wrote it. Blocks.

    Args:
        file: The file, which can be sought in.
        name: What it is called in reports.
        sessions: Where sessions go.
        store: Where images and files go.
        limits: The bounds of zip files, and of the largest image or file.
        options: What is taken in, and how.

    Raises:
        ValidationFailed: It is a zip file that is broken, beyond a limit or without sessions.
    """
    may_be_archive = options.source in ("auto", "mochi") and is_zip(file)
    if may_be_archive and holds_sessions(BoundedZip(file, limits)):
        return ArchiveImport(
            SessionArchive(file, limits),
            sessions,
            store,
            max_attachment_bytes=limits.attachment_bytes,
            dry_run=options.dry_run,
        )
    return ConversationImport(
        ExportFile(file, name, limits),
        sessions,
        store,
        max_attachment_bytes=limits.attachment_bytes,
        options=options,
    )
