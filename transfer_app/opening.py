"""Opens files to import: archives of this server, and other programs' exports."""

import tempfile
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, cast

from sessions_app.attachments.store import AttachmentStore
from sessions_app.errors import ValidationFailed
from sessions_app.service import SessionManager
from sessions_app.store.atomic import typed_errors
from transfer_app.archive_import import SessionImporter
from transfer_app.bounded_zip import BoundedZip, Limits
from transfer_app.export_file import JSON_NAMES, ExportFile, holds_sessions, is_zip
from transfer_app.formats.sources import ImportOptions
from transfer_app.importing import ConversationImport
from transfer_app.reading import SessionArchive


def open_import(
    file: BinaryIO,
    name: str,
    *,
    sessions: SessionManager,
    store: AttachmentStore,
    limits: Limits,
    options: ImportOptions,
) -> SessionImporter | ConversationImport:
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
    with ExitStack() as opened:
        content = opened.enter_context(_unwrapped(file, limits))
        found: SessionImporter | ConversationImport
        may_be_archive = options.source in ("auto", "mochi") and is_zip(content)
        if may_be_archive and holds_sessions(BoundedZip(content, limits)):
            found = SessionImporter(
                sessions,
                store,
                SessionArchive(content, limits),
                max_attachment_bytes=limits.attachment_bytes,
                dry_run=options.dry_run,
            )
        else:
            found = ConversationImport(
                ExportFile(content, name, limits),
                sessions,
                store,
                max_attachment_bytes=limits.attachment_bytes,
                options=options,
            )
        weakref.finalize(found, opened.pop_all().close)
        return found


@contextmanager
def _unwrapped(file: BinaryIO, limits: Limits) -> Iterator[BinaryIO]:
    """Unpack a zip file that is in a zip file without conversations; yield the file otherwise."""
    files = BoundedZip(file, limits).files if is_zip(file) else []
    names = [each.filename.lower() for each in files]
    inner = [each for each, name in zip(files, names, strict=True) if name.endswith(".zip")]
    if not inner or any(name.endswith(JSON_NAMES) for name in names):
        yield file
        return
    if len(inner) > 1:
        raise ValidationFailed(
            f"The file holds {len(inner)} zip files and no conversations. Import them one by one."
        )
    with tempfile.TemporaryFile() as content:
        with typed_errors():
            for piece in BoundedZip(file, limits).pieces(inner[0], most=limits.total_bytes):
                content.write(piece)
        yield cast("BinaryIO", content)
