"""Small images of every kind, made by hand, of any declared size."""

import struct
import zlib


def png(width: int = 2, height: int = 1, *, padding: int = 0) -> bytes:
    """Return a PNG; padding makes it longer, in a chunk that every decoder skips."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(
        b"".join(b"\0" + b"\xff\0\0" * min(width, 64) for _ in range(min(height, 64)))
    )
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + (chunk(b"prVt", bytes(padding)) if padding else b"")
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


def gif(width: int = 2, height: int = 1) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\0\0" + bytes(6) + b";"


def jpeg(width: int = 2, height: int = 1, *, before: bytes = b"") -> bytes:
    """Return the beginning of a JPEG with segments before its frame."""
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    return b"\xff\xd8" + segment(0xE0, b"JFIF\0") + before + frame + b"\xff\xda\0\x02\xff\xd9"


def segment(mark: int, data: bytes) -> bytes:
    return bytes([0xFF, mark]) + struct.pack(">H", len(data) + 2) + data


def webp(width: int = 2, height: int = 1, *, kind: bytes = b"VP8X") -> bytes:
    if kind == b"VP8X":
        data = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        data = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14)
    else:
        data = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    chunk = kind + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunk) + 4) + b"WEBP" + chunk


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(16)
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n%%EOF\n"
