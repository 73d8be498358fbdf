"""Declares the port of user-written documents, such as prompts, and its file adapter."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sessions_app.store.atomic import (
    StrPath,
    UnreadableFileError,
    read_regular,
    sync_directory,
    write_atomically,
)

MAX_DOCUMENT_BYTES = 1 << 20
"""The read limit; files written by hand may be longer than those written through the API."""


class DocumentReader(Protocol):
    """Reads documents by name. All calls block for milliseconds.

    The caller validates names.
    """

    def list(self) -> Sequence[str]:
        """Return all names in order, including those of unreadable documents."""

    def read(self, name: str) -> bytes:
        """Return a document; raises ``FileNotFoundError`` or ``UnreadableFileError``."""


class Documents(DocumentReader, Protocol):
    """Stores documents."""

    def snapshot(self) -> DocumentReader:
        """Return a reader of the current documents, which is cheaper for reading all of them."""

    def create(self, name: str, data: bytes) -> None:
        """Create a document. Of several writers of one name exactly one succeeds.

        Raises:
            FileExistsError: The name is taken.
            StorageError: The document can't be stored.
        """

    def replace(self, name: str, data: bytes) -> None:
        """Replace an existing document atomically.

        Raises:
            FileNotFoundError: There is no such document.
            UnreadableFileError: The name is taken by something else.
            StorageError: The document can't be stored.
        """

    def put(self, name: str, data: bytes) -> None:
        """Create or replace a document; raises ``StorageError``."""

    def delete(self, name: str) -> None:
        """Remove a document; raises ``FileNotFoundError`` or ``UnreadableFileError``."""


class FileDocuments:
    """Stores documents as files of one directory. Symbolic links are not followed.

    Args:
        directory: The directory; created with the first file.
        durable: Whether writes wait until they would survive a power cut.
    """

    def __init__(self, directory: StrPath, *, durable: bool = True) -> None:
        self._directory = Path(directory)
        self._durable = durable

    def list(self) -> Sequence[str]:
        """Return all names; a missing directory counts as empty."""
        try:
            return sorted(os.listdir(self._directory))  # noqa: PTH208 - names are all it takes
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        return read_regular(self._directory / name, limit=MAX_DOCUMENT_BYTES)

    def snapshot(self) -> DocumentReader:
        """Return this object: reading files is cheap."""
        return self

    def create(self, name: str, data: bytes) -> None:
        """Create a file; raises ``FileExistsError``."""
        write_atomically(self._directory / name, data, exclusive=True, durable=self._durable)

    def replace(self, name: str, data: bytes) -> None:
        """Replace an existing file."""
        self._require_regular(name)
        self.put(name, data)

    def put(self, name: str, data: bytes) -> None:
        """Create or replace a file."""
        write_atomically(self._directory / name, data, durable=self._durable)

    def delete(self, name: str) -> None:
        """Remove a file."""
        self._require_regular(name)
        (self._directory / name).unlink()
        if self._durable:
            sync_directory(self._directory)

    def _require_regular(self, name: str) -> None:
        path = self._directory / name
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UnreadableFileError(path, "not a regular file")


def documents_in(place: StrPath | Documents) -> Documents:
    """Return the documents of a directory; return other documents unchanged."""
    return FileDocuments(place) if isinstance(place, str | os.PathLike) else place
