"""Writes sessions and their attachments as a zip file, in pieces."""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from sessions_app.attachments.store import AttachmentStore, StoredFile
from sessions_app.errors import AttachmentNotFound
from sessions_app.format.codec import document_of, to_json
from sessions_app.format.json_pieces import LongList, json_pieces
from sessions_app.format.message_format import message_to_json, size_of_message
from sessions_app.inbox import EMPTY_INBOX
from sessions_app.messages import Attachment
from sessions_app.session import Session, with_inbox
from transfer_app.layout import attachment_name, attachments_of, session_name

PIECE_BYTES = 1 << 20
WORK_BYTES = 1 << 18
"""The maximum bytes written between two pieces, which limits wasted work after a disconnect."""
_PRIVATE = 0o100600 << 16  # a regular file, for programs that unpack it
_MADE_ON_UNIX = 3
_FIRST_DAY = (
    1980,
    1,
    1,
    0,
    0,
    0,
)  # the earliest zip date, so that the same session gives the same bytes

ZipEntry = tuple[zipfile.ZipInfo, Iterator[bytes]]
"""A file in a zip file, and its bytes."""


_readable = partial(to_json, readable=True)


def kept_files(
    session: Session, store: AttachmentStore
) -> tuple[Sequence[StoredFile], Sequence[Attachment]]:
    """Return the files of a session's messages that are kept, and the attachments that are missing.

    Raises:
        StorageError: The store can't be reached.
    """
    files: list[StoredFile] = []
    missing: list[Attachment] = []
    for attachment in attachments_of(session):
        try:
            files.append(store.stat(attachment.id))
        except AttachmentNotFound:
            missing.append(attachment)
    return files, missing


def session_entries(
    session: Session, files: Iterable[StoredFile], store: AttachmentStore
) -> Iterator[ZipEntry]:
    """Yield the zip entries of a session and some of its files.

    Files are not compressed: most are already, and the archive can't look like a zip bomb.
    """
    yield _entry(session_name(session.session_id), zipfile.ZIP_DEFLATED), session_pieces(session)
    for file in files:
        entry = _entry(attachment_name(file.id), zipfile.ZIP_STORED)
        entry.file_size = file.size
        yield entry, _content(file, store)


def zip_pieces(entries: Iterable[ZipEntry]) -> Iterator[bytes]:
    """Yield a zip file of these entries, with at most some MiB in memory.

    Raises:
        AttachmentNotFound, StorageError: An attachment can't be read after all.
    """
    sink = _Sink()
    written = 0
    with zipfile.ZipFile(sink, "w") as file:
        for entry, content in entries:
            with file.open(entry, "w") as out:
                for piece in content:
                    out.write(piece)
                    written += len(piece)
                    if written >= WORK_BYTES and sink.size:
                        yield sink.taken()
                        written = 0
    yield sink.taken()


def _content(file: StoredFile, store: AttachmentStore) -> Iterator[bytes]:
    for start in range(0, file.size, PIECE_BYTES):
        yield store.read(file.id, start, PIECE_BYTES)


def session_pieces(session: Session, encode: Callable[[Any], bytes] = _readable) -> Iterator[bytes]:
    """Yield a session's file in pieces."""
    messages = LongList(session.messages, message_to_json, size_of_message)
    document = document_of(with_inbox(session, EMPTY_INBOX), ()) | {"messages": messages}
    return json_pieces(document, encode)


def _entry(name: str, compression: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _FIRST_DAY)
    entry.create_system = _MADE_ON_UNIX
    entry.external_attr = _PRIVATE
    entry.compress_type = compression
    return entry


class _Sink:
    """A file object that buffers written bytes until they are taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is buffered elsewhere."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def taken(self) -> bytes:
        data, self._pieces, self.size = b"".join(self._pieces), [], 0
        return data
