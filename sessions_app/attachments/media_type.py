"""Detects a file's type by its content, never by its name or a client's declaration.

Decodes texts by the same rules.

Sources: PNG (W3C, 5.2 and 11.2.1), GIF89a (section 18), JPEG (ITU-T T.81, annex B), WebP
(RFC 9649), ISO base media files (ISO/IEC 14496-12, 4.3), PDF (ISO 32000-1, 7.5.2).
"""

import codecs
import re
import struct
from collections.abc import Sequence
from typing import BinaryIO

import msgspec

PNG = "image/png"
JPEG = "image/jpeg"
GIF = "image/gif"
WEBP = "image/webp"
HEIC = "image/heic"
PDF = "application/pdf"
TEXT = "text/plain"
IMAGES = frozenset({PNG, JPEG, GIF, WEBP, HEIC})
MEDIA_TYPES = (PNG, JPEG, GIF, WEBP, HEIC, PDF, TEXT)
HEAD_BYTES = 32
"""The number of first bytes that determine a file's type."""

_HEIC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1"})
_PIECE_BYTES = 1 << 16
_WINDOWS = "cp1252"
_ASCII = bytes(range(128))
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_MOST_SEGMENTS = (
    4096  # of a JPEG before its frame, so that a file of markers alone is not read to the end
)
_MOST_FILL_BYTES = 4096  # before markers, in total, as each is read separately
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # excluded: tables and reserved markers
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length


class ImageSize(msgspec.Struct, frozen=True):
    """The size of an image in pixels, as its header declares it."""

    width: int
    height: int

    @property
    def pixels(self) -> int:
        """The number of pixels of the decoded image."""
        return self.width * self.height


def image_type(head: bytes) -> str | None:
    """Return the media type of an image or a PDF from its first ``HEAD_BYTES``; None for others."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if head.startswith(b"\xff\xd8\xff"):
        return JPEG
    if head.startswith((b"GIF87a", b"GIF89a")):
        return GIF
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    if head[4:8] == b"ftyp" and head[8:12] in _HEIC_BRANDS:
        return HEIC
    return PDF if head.startswith(b"%PDF-") else None


def media_type(file: BinaryIO) -> str | None:
    """Return the media type of a file; None if it is neither an image, nor a PDF, nor text. Blocks.

    Text has no NUL, and HTML and SVG are text. It is UTF-8, UTF-16 with a byte order mark, or
    Windows-1252 without control characters and with at least as many ASCII characters as others.
    """
    file.seek(0)
    head = file.read(HEAD_BYTES)
    found = image_type(head)
    if found is not None:
        return found
    return TEXT if any(_decodes(file, encoding) for encoding in _encodings(head)) else None


def decode_text(data: bytes) -> str:
    """Return the content of a text file, in any encoding that ``media_type`` recognizes."""
    for encoding in _encodings(data):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "replace")


def _encodings(head: bytes) -> Sequence[str]:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ("utf-16",)
    return ("utf-8-sig", _WINDOWS)


def _decodes(file: BinaryIO, encoding: str) -> bool:
    file.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)()
    others = size = 0
    try:
        while piece := file.read(_PIECE_BYTES):
            if "\0" in decoder.decode(piece):
                return False
            others += len(piece.translate(None, _ASCII))
            size += len(piece)
            if encoding == _WINDOWS and _CONTROL.search(piece):
                return False
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return encoding != _WINDOWS or 2 * others <= size


def image_size(file: BinaryIO, kind: str) -> ImageSize | None:
    """Return the size declared by an image's header, or None. Blocks.

    Args:
        file: The image.
        kind: The media type. For HEIC, whose size is deep in nested boxes, None is returned.

    Raises:
        ValueError: The header is incomplete or invalid.
    """
    readers = {PNG: _png_size, JPEG: _jpeg_size, GIF: _gif_size, WEBP: _webp_size}
    reader = readers.get(kind)
    if reader is None:
        return None
    file.seek(0)
    try:
        size = reader(file)
    except struct.error as error:
        raise ValueError("its header is cut off") from error
    if size.width == 0 or size.height == 0:
        raise ValueError("it declares a size of nothing")
    return size


def _png_size(file: BinaryIO) -> ImageSize:
    head = file.read(24)
    if head[12:16] != b"IHDR":
        raise ValueError("it does not begin with its header")
    return ImageSize(*struct.unpack(">II", head[16:24]))


def _gif_size(file: BinaryIO) -> ImageSize:
    return ImageSize(*struct.unpack("<HH", file.read(10)[6:10]))


def _jpeg_size(file: BinaryIO) -> ImageSize:
    file.seek(2)
    filled = 0
    for _ in range(_MOST_SEGMENTS):
        (mark,) = struct.unpack(">B", file.read(1))
        if mark != 0xFF:
            raise ValueError("its segments make no sense")
        while mark == 0xFF:  # fill bytes: any number may precede a marker
            (mark,) = struct.unpack(">B", file.read(1))
            filled += mark == 0xFF
            if filled > _MOST_FILL_BYTES:
                raise ValueError("it is filled up before its frame")
        if mark in {_START_OF_SCAN, _END_OF_IMAGE}:
            break
        if mark in _ALONE:
            continue
        (length,) = struct.unpack(">H", file.read(2))
        if mark in _FRAMES:
            height, width = struct.unpack(">xHH", file.read(5))
            return ImageSize(width, height)
        if length < 2:
            raise ValueError("its segments make no sense")
        file.seek(length - 2, 1)
    raise ValueError("it has no frame")


def _webp_size(file: BinaryIO) -> ImageSize:
    head = file.read(30)
    kind = head[12:16]
    if kind == b"VP8X":
        return ImageSize(
            int.from_bytes(_exactly(head[24:27], 3), "little") + 1,
            int.from_bytes(_exactly(head[27:30], 3), "little") + 1,
        )
    if kind == b"VP8L" and head[20:21] == b"\x2f":
        (bits,) = struct.unpack("<I", head[21:25])
        return ImageSize((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", head[26:30])
        return ImageSize(width & 0x3FFF, height & 0x3FFF)
    raise ValueError("its header makes no sense")


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise ValueError("its header is cut off")
    return data
