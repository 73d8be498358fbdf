"""Base64 becomes the bytes that it is of, or a refusal with a sentence."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.attachments.base64_text import (
    InvalidBase64,
    begin_of_base64,
    decode_base64,
    id_of,
)
from sessions_app.errors import AttachmentTooLarge


@pytest.mark.parametrize("size", [0, 1, 2, 3, 786_431, 786_432, 786_433, 2_000_000])
def test_base64_is_decoded_piece_by_piece(size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    pieces = decode_base64("data:x," + base64.b64encode(data).decode(), begin=7, max_bytes=size)
    assert b"".join(pieces) == data
    assert id_of(pieces) == id_of([data])


@given(st.binary(max_size=100))
def test_lines_are_joined(data: bytes) -> None:
    text = base64.encodebytes(data).decode().replace("\n", "\r\n\t ")
    assert b"".join(decode_base64(text, max_bytes=len(data))) == data


@pytest.mark.parametrize("text", ["a", "aGVsbG8", "aGVsbG8=aGVs", "aGVsb\u00f68=", "aG-_", " a "])
def test_rubbish_is_no_base64(text: str) -> None:
    with pytest.raises(InvalidBase64, match=r"^It is not base64: .*\.$"):
        decode_base64(text, max_bytes=100)


def test_padding_between_two_pieces_is_no_base64() -> None:
    text = "A" * ((1 << 20) - 1) + "=" + "AAAA"
    with pytest.raises(InvalidBase64, match="padding"):
        decode_base64(text)


def test_more_than_is_taken_is_not_decoded() -> None:
    for text in ("?" * 4000, " " * 4000 + "?" * 4000):
        with pytest.raises(AttachmentTooLarge):
            decode_base64(text, max_bytes=2000)


@pytest.mark.parametrize(
    ("text", "begin"),
    [("aGVsbG8=", 0), ("data:image/png;base64,aGVsbG8=", 22), ("DATA:;BASE64,aGVsbG8=", 13)],
)
def test_a_data_url_is_decoded_behind_its_comma(text: str, begin: int) -> None:
    assert begin_of_base64(text) == begin
    assert decode_base64(text, begin=begin) == [b"hello"]


@pytest.mark.parametrize("url", ["data:", "data:text/plain,x", f"data:{'x' * 600};base64,aGVsbG8="])
def test_a_data_url_without_base64_is_refused(url: str) -> None:
    with pytest.raises(InvalidBase64, match="A data URL looks like"):
        begin_of_base64(url)
