"""Attachments in an event loop: in pieces, and cancelled at every moment."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sessions_app.attachments.file_store import FileAttachmentStore, FileAttachmentWriter
from sessions_app.attachments.service import PIECE_BYTES, AttachmentDamaged, AttachmentService
from sessions_app.errors import AttachmentNotFound, AttachmentTooLarge, ValidationFailed
from tests.unit.sessions_app.attachments import images

PICTURE = images.png(padding=3 * PIECE_BYTES)


async def in_pieces(data: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "attachments"


@pytest.fixture
def service(folder: Path) -> AttachmentService:
    return AttachmentService(FileAttachmentStore(folder), max_bytes=1 << 22)


async def left_behind(folder: Path) -> list[Path]:
    def look() -> list[Path]:
        return [path for path in (folder / ".incoming").glob("*") if path.suffix != ".lock"]

    return await asyncio.to_thread(look)


async def test_what_arrives_in_pieces_is_kept_whole(service: AttachmentService) -> None:
    found, is_new = await service.receive(in_pieces(PICTURE), name="../cat.png")
    assert (found.name, found.media_type, found.size) == ("cat.png", "image/png", len(PICTURE))
    assert found.id == f"sha256:{hashlib.sha256(PICTURE).hexdigest()}"
    assert is_new
    assert await service.read(found.id) == PICTURE
    assert await service.receive(in_pieces(PICTURE), name="cat.png") == (found, False)


async def test_what_is_there_as_a_whole_is_kept_and_looked_up(service: AttachmentService) -> None:
    found = await service.keep(PICTURE, name=None)
    assert found.name == "image.png"
    assert await service.look_up(found.id) == found
    assert (await service.look_up(found.id, name="cat.png")).name == "cat.png"


@pytest.mark.parametrize(
    ("start", "length"), [(0, len(PICTURE)), (5, len(PICTURE) - 5), (5, PIECE_BYTES), (7, 99)]
)
async def test_a_range_is_read_in_pieces(
    service: AttachmentService, start: int, length: int
) -> None:
    found = await service.keep(PICTURE, name=None)
    pieces = [piece async for piece in service.pieces(found.id, start, length)]
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert b"".join(pieces) == PICTURE[start : start + length]


async def test_all_bytes_are_read_in_pieces(service: AttachmentService) -> None:
    found = await service.keep(PICTURE, name=None)
    pieces = [piece async for piece in service.whole(found)]
    assert max(map(len, pieces)) <= PIECE_BYTES
    assert b"".join(pieces) == PICTURE


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"?"])
async def test_the_end_of_a_damaged_file_is_not_given(
    service: AttachmentService, folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    found = await service.keep(PICTURE, name=None)

    def spoil() -> None:
        (path,) = folder.glob(f"??/{found.id.removeprefix('sha256:')}")
        path.write_bytes(damage(PICTURE))

    await asyncio.to_thread(spoil)
    read: list[bytes] = []

    async def read_all() -> None:
        async for piece in service.whole(found):
            read.append(piece)  # noqa: PERF401 - what came before the error

    with pytest.raises(AttachmentDamaged):
        await read_all()
    assert sum(map(len, read)) < len(PICTURE) - 1


async def test_what_is_not_there_is_not_found(service: AttachmentService) -> None:
    for call in (service.look_up, service.read):
        with pytest.raises(AttachmentNotFound):
            await call("sha256:1")


async def test_a_refused_upload_leaves_nothing(service: AttachmentService, folder: Path) -> None:
    with pytest.raises(AttachmentTooLarge):
        await service.receive(in_pieces(bytes(1 << 23)), name=None)
    with pytest.raises(ValidationFailed):
        await service.receive(in_pieces(b""), name=None)
    with pytest.raises(ValidationFailed):
        await service.keep(b"\0", name=None)
    assert await left_behind(folder) == []


async def test_a_client_that_goes_away_leaves_nothing(
    service: AttachmentService, folder: Path
) -> None:
    arrived = asyncio.Event()

    async def broken_off() -> AsyncIterator[bytes]:
        yield PICTURE[:PIECE_BYTES]
        arrived.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(service.receive(broken_off(), name=None))
    await arrived.wait()
    assert len(await left_behind(folder)) == 1
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert await left_behind(folder) == []


async def test_a_file_is_not_closed_while_a_thread_writes_to_it(
    service: AttachmentService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, may_go_on, closed = threading.Event(), threading.Event(), threading.Event()
    write, abandon = FileAttachmentWriter.write, FileAttachmentWriter.abandon

    def slow(self: FileAttachmentWriter, data: bytes) -> None:
        writes.set()
        assert may_go_on.wait(30)
        assert not closed.is_set()
        write(self, data)

    def noted(self: FileAttachmentWriter) -> None:
        closed.set()
        abandon(self)

    monkeypatch.setattr(FileAttachmentWriter, "write", slow)
    monkeypatch.setattr(FileAttachmentWriter, "abandon", noted)
    upload = asyncio.create_task(service.receive(in_pieces(PICTURE), name=None))
    assert await asyncio.to_thread(writes.wait, 30)
    upload.cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert closed.is_set()
    assert await left_behind(folder) == []
