"""Reads exports of other programs: JSON, JSON Lines, or a zip file with them."""

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

from sessions_app.errors import ValidationFailed
from transfer_app.bounded_zip import PIECE_BYTES, BoundedZip, Limits
from transfer_app.entries import Entry, Problem, entries
from transfer_app.layout import session_named

_MAGIC = b"PK"
_CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
JSON_NAMES = (".json", ".jsonl", ".ndjson")
_FILE_ID = re.compile(r"file-[A-Za-z0-9]+|file_[0-9a-f]+")


def is_zip(file: BinaryIO) -> bool:
    """Return whether a file begins like a zip file."""
    file.seek(0)
    begin = file.read(len(_MAGIC))
    file.seek(0)
    return begin == _MAGIC


class ExportFile:
    """A file of conversations. Calls block.

    Args:
        file: The file, which must be seekable.
        name: The name of the file in reports.
        limits: The limits of a zip file.

    Attributes:
        total_bytes: The number of bytes to read.
        bytes_read: The number of bytes read so far.

    Raises:
        ValidationFailed: A zip file is invalid, exceeds a limit, or has no conversations.
    """

    def __init__(self, file: BinaryIO, name: str, limits: Limits) -> None:
        self._file = file
        self._name = name
        self._limits = limits
        self._zip: BoundedZip | None = None
        self._members: list[zipfile.ZipInfo] = []
        self._others: dict[str, zipfile.ZipInfo | None] = {}
        self.bytes_read = 0
        if is_zip(file):
            self._zip = BoundedZip(file, limits)
            self._members = _conversations(self._zip.files)
            if not self._members:
                raise ValidationFailed("The file holds no conversations.")
            self.total_bytes = sum(each.file_size for each in self._members)
            self._others = _by_names(self._zip.files)
        else:
            self.total_bytes = file.seek(0, io.SEEK_END)
            file.seek(0)

    def entries(self) -> Iterator[Entry | Problem]:
        """Yield the entries of the file, and a problem for each invalid part."""
        if self._zip is None:
            yield from entries(self._plain(), self._name)
            return
        for member in self._members:
            try:
                yield from entries(self._unpacked(self._zip, member), member.filename)
            except ValidationFailed as error:
                yield Problem(place=member.filename, reason=error.message)

    def holds(self, pointer: str) -> bool:
        """Return whether the zip file has the file that a conversation points to."""
        return self._others.get(_base(pointer)) is not None

    def pieces(self, pointer: str, *, most: int) -> Iterator[bytes]:
        """Yield the bytes of a file that a conversation points to; requires ``holds``.

        Raises:
            ValidationFailed: The file is invalid, or larger than ``most``.
        """
        found = self._others[_base(pointer)]
        if found is not None and self._zip is not None:
            yield from self._zip.pieces(found, most=most)

    def name_of(self, pointer: str) -> str:
        """Return the name of that file in the zip file."""
        found = self._others.get(_base(pointer))
        return _base(found.filename) if found is not None else ""

    def _plain(self) -> Iterator[bytes]:
        while piece := self._file.read(PIECE_BYTES):
            self.bytes_read += len(piece)
            yield piece

    def _unpacked(self, archive: BoundedZip, member: zipfile.ZipInfo) -> Iterator[bytes]:
        for piece in archive.pieces(member, most=self._limits.total_bytes):
            self.bytes_read += len(piece)
            yield piece


def holds_sessions(archive: BoundedZip) -> bool:
    """Return whether a zip file has session files of this server."""
    return any(session_named(each.filename) is not None for each in archive.files)


def _conversations(files: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Return the files with conversations, by well-known names, or else all that may have some."""
    named = [each for each in files if _CONVERSATIONS.fullmatch(_base(each.filename))]
    found = named or [
        each
        for each in files
        if each.filename.endswith(JSON_NAMES) and not each.filename.startswith("__MACOSX/")
    ]
    return sorted(found, key=lambda each: each.filename)


def _by_names(files: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo | None]:
    """Return the files by name and by the id at the start of the name; None if ambiguous."""
    names: dict[str, zipfile.ZipInfo | None] = {}
    for each in files:
        base = _base(each.filename)
        names[base] = None if base in names else each
    for each in files:
        if found := _FILE_ID.match(_base(each.filename)):
            names.setdefault(found[0], each)
    return names


def _base(name: str) -> str:
    return PurePosixPath(name).name
