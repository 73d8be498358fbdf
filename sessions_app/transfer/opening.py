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
    """Open a file to import, in any supported format. Blocks.

    Args:
        file: The file, which must be seekable.
        name: The name of the file in reports.
        sessions: The destination of sessions.
        store: The destination of images and files.
        limits: The limits of zip files, images and files.
        options: The options of the import.

    Raises:
        ValidationFailed: A zip file is invalid, exceeds a limit, or has no sessions.
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
