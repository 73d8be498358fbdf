from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.attachments.media_type import (
    GIF,
    HEIC,
    JPEG,
    MEDIA_TYPES,
    PDF,
    PNG,
    TEXT,
    WEBP,
    ImageSize,
    decode_text,
    image_size,
    media_type,
)
from tests.unit.sessions_app.attachments import images

sides = st.integers(1, 0x3FFF)


def size_of(data: bytes) -> ImageSize | None:
    file = BytesIO(data)
    kind = media_type(file)
    assert kind is not None
    return image_size(file, kind)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (images.png(), PNG),
        (images.jpeg(), JPEG),
        (images.gif(), GIF),
        (images.webp(), WEBP),
        (images.HEIC, HEIC),
        (images.PDF, PDF),
        ("Grüße, 世界\n".encode(), TEXT),
        (b"", TEXT),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", TEXT),
        (b"<!doctype html><script>alert(1)</script>", TEXT),
        (b"\x7fELF" + bytes(60), None),
        (b"PK\x03\x04" + b"\xff" * 60, None),
        ("Größe: 3\r\n".encode("cp1252"), TEXT),
        ("Grüße, 世界\n".encode("utf-16"), TEXT),
        ("\ufeffGrüße".encode("utf-16-be"), TEXT),
        ("a\0b".encode("utf-16"), None),
        ("世".encode()[:1], None),
        (b"caf\xe9 \x81", None),
        (b"caf\xe9 \x02", None),
    ],
)
def test_a_file_is_what_its_bytes_say(data: bytes, kind: str | None) -> None:
    assert media_type(BytesIO(data)) == kind


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff")))
def test_what_is_text_can_be_read(text: str) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        data = text.encode(encoding, "ignore")
        if encoding != "cp1252":
            assert media_type(BytesIO(data)) == TEXT
            assert decode_text(data) == text
    assert decode_text("naïve café".encode("cp1252")) == "naïve café"


@given(sides, sides)
def test_images_declare_their_size(width: int, height: int) -> None:
    exif = b"".join(images.segment(0xE1, bytes(n)) for n in (0, 70, 60_000, 65_533))
    for data in (
        images.png(width, height),
        images.gif(width, height),
        images.jpeg(width, height, before=exif),
        images.jpeg(width, height, before=b"\xff\xff\xff\x01"),
        images.webp(width, height),
        images.webp(width, height, kind=b"VP8L"),
        images.webp(width, height, kind=b"VP8 "),
    ):
        assert size_of(data) == ImageSize(width, height)


def test_what_does_not_say_its_size_in_its_header_has_none() -> None:
    assert size_of(images.HEIC) is None
    assert size_of(images.PDF) is None


@pytest.mark.parametrize(
    "data",
    [
        images.png(0, 7),
        images.gif(7, 0),
        images.jpeg(0, 0),
        images.png()[:20],
        images.png().replace(b"IHDR", b"iHDR"),
        images.gif()[:9],
        images.webp()[:28],
        images.webp(kind=b"VP8L")[:23],
        images.webp(kind=b"ALPH"),
        images.jpeg()[:9],
        b"\xff\xd8\xff\xda\0\x02",
        b"\xff\xd8\xff\xe0\0\x01" + bytes(9),
        b"\xff\xd8\xff\xe0\0\x04aabb",
        b"\xff\xd8" + b"\xff\x01" * 10_000,
        images.jpeg(before=b"\xff" * 10_000),
        images.jpeg(before=(b"\xff" * 20 + images.segment(0xE1, b"")) * 1000),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it"):
        size_of(data)


def test_a_file_of_fill_bytes_is_not_read_to_its_end() -> None:
    file = BytesIO(b"\xff\xd8" + b"\xff" * 100_000)
    with pytest.raises(ValueError, match="filled up"):
        image_size(file, JPEG)
    assert file.tell() < 5000


@given(st.binary(max_size=200), st.sampled_from([b"", images.png(), images.jpeg(), images.webp()]))
def test_any_bytes_have_a_type_or_none_and_a_size_or_a_reason(noise: bytes, before: bytes) -> None:
    file = BytesIO(before[:40] + noise)
    kind = media_type(file)
    assert kind is None or kind in MEDIA_TYPES
    if kind is not None:
        with suppress(ValueError):
            size = image_size(file, kind)
            assert size is None or size.pixels > 0
