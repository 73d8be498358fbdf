"""Stores a generation as the size of a file."""

import os
from pathlib import Path

from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory, raise_if_unwritable

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class FileGenerations:
    """Adds a byte to a file for each ``bump``, so reading the generation costs one ``stat``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def current(self) -> int:
        """Return the size of the file; 0 if there is none."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def bump(self) -> None:
        """Append a byte.

        Raises:
            StorageFull: The disk is full.
        """
        make_private_directory(self._path.parent)
        try:
            descriptor = os.open(self._path, _APPEND, PRIVATE_FILE)
            try:
                os.write(descriptor, b".")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise_if_unwritable(error)
            raise
