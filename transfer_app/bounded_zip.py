"""Opens untrusted zip files, refusing zip bombs before unpacking."""

import errno
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import msgspec

from sessions_app.errors import ValidationFailed
from sessions_app.store.session_files import SIZE_LIMIT

PIECE_BYTES = 1 << 18
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError),
    *(EOFError, ValueError, OverflowError, LookupError),
)
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 0x1


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an archive.

    Attributes:
        attachment_bytes: The maximum size of an attachment.
        session_bytes: The maximum size of a session.
        entries: The maximum number of files.
        directory_bytes: The maximum size of the central directory, which is read into memory.
        total_bytes: The maximum unpacked size.
        ratio: The maximum compression ratio of archives above ``ratio_from_bytes``.
        ratio_from_bytes: The unpacked size from which on ``ratio`` applies, since small archives of
            text may compress better.
    """

    attachment_bytes: int
    session_bytes: int = SIZE_LIMIT
    entries: int = 20_000
    directory_bytes: int = 4 << 20
    total_bytes: int = 8 << 30
    ratio: int = 100
    ratio_from_bytes: int = 2 * SIZE_LIMIT


class BoundedZip:
    """A zip file whose central directory was checked. Calls block.

    Args:
        file: The zip file, which must be seekable.
        limits: The limits.

    Attributes:
        files: The entries of files.

    Raises:
        ValidationFailed: The file is invalid or exceeds a limit, as the message says.
    """

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        with _refusing():
            self._zip = zipfile.ZipFile(_BoundedReads(file, limits.directory_bytes))
            self.files = [each for each in self._zip.infolist() if not each.filename.endswith("/")]
        _check(self.files, limits, archive_bytes=file.seek(0, io.SEEK_END))

    def pieces(self, entry: zipfile.ZipInfo, *, most: int) -> Iterator[bytes]:
        """Yield the bytes of an entry.

        Raises:
            ValidationFailed: The entry is larger than ``most``, or invalid.
        """
        if entry.file_size > most:
            raise ValidationFailed(
                f"The file's {entry.filename} has {entry.file_size:,} bytes; {most:,} are allowed."
            )
        size = 0
        with _refusing(), self._zip.open(entry) as content:
            while piece := content.read(PIECE_BYTES):
                size += len(piece)
                yield piece
        if size != entry.file_size:
            raise ValidationFailed(f"The file is broken: {entry.filename} is not whole.")


def _check(entries: Sequence[zipfile.ZipInfo], limits: Limits, *, archive_bytes: int) -> None:
    """Check the sizes declared in the central directory.

    Unpacking stops if an entry is larger than declared.
    """
    if len(entries) > limits.entries:
        raise ValidationFailed(
            f"The file holds {len(entries):,} files; {limits.entries:,} are allowed."
        )
    if len({entry.filename for entry in entries}) < len(entries):
        raise ValidationFailed("The file is broken: it holds two files of one name.")
    for entry in entries:
        if entry.compress_type not in _METHODS or entry.flag_bits & _ENCRYPTED:
            raise ValidationFailed(
                f"The file's {entry.filename} is encrypted, or packed in a way that is not read "
                "here."
            )
    if sum(entry.compress_size for entry in entries) > archive_bytes:
        raise ValidationFailed("The file is broken: its files overlap.")
    total = sum(entry.file_size for entry in entries)
    if total > limits.total_bytes:
        raise ValidationFailed(
            f"The file is too large: unpacked {total:,} bytes, and {limits.total_bytes:,} are "
            "allowed."
        )
    if total > limits.ratio_from_bytes and total > limits.ratio * archive_bytes:
        raise ValidationFailed(
            f"The file is packed too tightly to be trusted: {archive_bytes:,} bytes would become "
            f"{total:,}."
        )


@contextmanager
def _refusing() -> Iterator[None]:
    """Translate errors of ``zipfile`` to ``ValidationFailed``."""
    try:
        yield
    except _BROKEN as error:
        raise ValidationFailed(f"The file is not a zip file, or is broken: {error}.") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # a seek before the start of the file
            raise
        raise ValidationFailed("The file is not a zip file, or is broken.") from error


class _BoundedReads(io.RawIOBase):
    """Limits the size of a single read, by which ``zipfile`` reads the central directory."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self._most = most

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size if 0 <= size <= self._most else self._most + 1)
        if len(data) > self._most:
            raise ValidationFailed("The file's table of contents is too large.")
        return data
