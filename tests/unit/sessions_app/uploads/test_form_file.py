import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import ValidationFailed
from sessions_app.uploads.form_file import MOST_PARTS, FormFile

TYPE = "multipart/form-data; boundary=line"
HEAD = b'--line\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
END = b"\r\n--line--\r\n"


async def arriving(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_a_file_is_read_however_the_form_is_cut(size: int) -> None:
    form = b'--line\r\nContent-Disposition: form-data; name="x"\r\n\r\nfield\r\n'
    form += HEAD + b"two\r\n--lines\r\n" + END
    pieces = [form[at : at + size] for at in range(0, len(form), size)]
    file = FormFile(TYPE, arriving(*pieces))
    assert b"".join([piece async for piece in file.data()]) == b"two\r\n--lines\r\n"
    assert file.name == "a.txt"


async def test_a_form_without_its_end_is_no_file() -> None:
    with pytest.raises(ValidationFailed, match="no end"):
        [piece async for piece in FormFile(TYPE, arriving(HEAD, b"half")).data()]


async def test_a_boundary_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValidationFailed, match="boundary"):
        FormFile(f"multipart/form-data; boundary={'x' * 5000}", arriving())


async def test_a_form_of_nothing_but_parts_is_refused_before_its_end() -> None:
    part = b"--line\r\nx: y\r\n\r\nfield\r\n"
    form = FormFile(TYPE, arriving(part * (MOST_PARTS - 1) + HEAD, b"data", END))
    assert b"".join([piece async for piece in form.data()]) == b"data"
    arrived = []

    async def endless() -> AsyncIterator[bytes]:
        for number in range(1000):
            arrived.append(number)
            yield part

    with pytest.raises(ValidationFailed, match="at most 100 parts"):
        [piece async for piece in FormFile(TYPE, endless()).data()]
    assert len(arrived) == MOST_PARTS + 1


@pytest.mark.parametrize("header", [b"x" * 20_000 + b": y", b"x: " + b"y" * 20_000])
async def test_endless_headers_of_a_part_are_refused(header: bytes) -> None:
    pieces = [b"--line\r\n", *(header[at : at + 500] for at in range(0, len(header), 500))]
    with pytest.raises(ValidationFailed):
        [piece async for piece in FormFile(TYPE, arriving(*pieces)).data()]


async def test_a_large_form_is_never_whole_in_memory(tmp_path: Path) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield HEAD
        for _ in range(320):
            yield b"x" * 65_536
        yield END

    service = AttachmentService(FileAttachmentStore(tmp_path), max_bytes=32 << 20)
    await service.keep(b"first", name=None)  # threads and modules are there
    form = FormFile(TYPE, body())
    tracemalloc.start()
    try:
        attachment, _ = await service.receive(form.data(), name=None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert attachment.size == 320 * 65_536
    assert peak < 1 << 20
