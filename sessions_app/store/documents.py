"""Declares the port for documents that people write, as prompts are, and its file adapter."""

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
"""Larger ones are not read. Those written by hand may be longer than ours."""


class DocumentReader(Protocol):
    """Reads documents by name. All calls block for milliseconds.

    Names are the caller's to check before they come here.
    """

    def list(self) -> Sequence[str]:
        """Return all names in order, those of documents that can't be read too."""

    def read(self, name: str) -> bytes:
        """Return a document; raises ``FileNotFoundError`` or ``UnreadableFileError``."""


class Documents(DocumentReader, Protocol):
    """Keeps documents."""

    def snapshot(self) -> DocumentReader:
        """Return the documents as they are now: for who reads all of them, for little."""

    def create(self, name: str, data: bytes) -> None:
        """Keep a new document. Of several writers of one name exactly one succeeds.

        Raises:
            FileExistsError: The name is taken.
            StorageError: It can't be kept.
        """

    def replace(self, name: str, data: bytes) -> None:
        """Replace a whole document, or leave it as it was.

        Raises:
            FileNotFoundError: There is none.
            UnreadableFileError: Something else has the name.
            StorageError: It can't be kept.
        """

    def put(self, name: str, data: bytes) -> None:
        """Keep a document, in the place of the one that has the name, if any; ``StorageError``."""

    def delete(self, name: str) -> None:
        """Remove a document; raises ``FileNotFoundError`` or ``UnreadableFileError``."""


class FileDocuments:
    """Keeps documents as files of one directory. Symbolic links are not followed.

    Args:
        directory: The directory; made with the first file.
        durable: Whether writes wait until they would survive a power cut.
    """

    def __init__(self, directory: StrPath, *, durable: bool = True) -> None:
        self._directory = Path(directory)
        self._durable = durable

    def list(self) -> Sequence[str]:
        """Return the names of everything there; a missing directory is an empty one."""
        try:
            return sorted(os.listdir(self._directory))  # noqa: PTH208 - names are all it takes
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        return read_regular(self._directory / name, limit=MAX_DOCUMENT_BYTES)

    def snapshot(self) -> DocumentReader:
        """Return the files themselves: reading them is for little."""
        return self

    def create(self, name: str, data: bytes) -> None:
        """Write a new file."""
        write_atomically(self._directory / name, data, exclusive=True, durable=self._durable)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file in the place of another one."""
        self._require_regular(name)
        self.put(name, data)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, whatever has its name."""
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
    """Return the documents of a directory; others as they are."""
    return FileDocuments(place) if isinstance(place, str | os.PathLike) else place
