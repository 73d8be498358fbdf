"""Uploaded files are kept aside while they arrive, taken in one at a time, and leave nothing."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import ImportRunning, StorageFull, ValidationFailed
from sessions_app.format.codec import to_json
from sessions_app.service import SessionManager
from tests.unit.transfer_app.formats.exports import FOLDER, entries_of
from tests.unit.transfer_app.stores import MemoryStore, manager_in
from transfer_app.uploaded import UploadedImport

CHAT = entries_of("chatbot_ui")[0]


@pytest.fixture
def manager(tmp_path: Path) -> SessionManager:
    return manager_in(tmp_path)


@pytest.fixture
def work(manager: SessionManager, tmp_path: Path) -> UploadedImport:
    return UploadedImport(
        sessions=manager,
        attachments=AttachmentService(MemoryStore(), max_bytes=1 << 20),
        folder=lambda: tmp_path / "aside",
        max_bytes=1 << 20,
        default_model=default_model,
    )


async def default_model() -> str | None:
    return "m"


async def arriving(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def fixture(name: str) -> bytes:
    return (FOLDER / f"{name}.json").read_bytes()


def chats(number: int) -> bytes:
    return to_json([{**CHAT, "id": str(each)} for each in range(number)])


async def test_a_file_is_taken_in_once_it_is_there(
    work: UploadedImport, manager: SessionManager, tmp_path: Path
) -> None:
    data = await asyncio.to_thread(fixture, "claude")
    summary = await work.run(arriving(data[:1000], data[1000:]))
    assert summary.as_json()["imported"] == 2
    assert len(await asyncio.to_thread(manager.list_sessions)) == 2
    again = await work.run(arriving(data))
    assert again.as_json()["same"] == 2
    assert await asyncio.to_thread(lambda: list((tmp_path / "aside").iterdir())) == []


async def test_only_one_is_taken_in_at_a_time(work: UploadedImport) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        begun.set()
        await go_on.wait()
        yield chats(1)

    first = asyncio.create_task(work.run(slow()))
    await begun.wait()
    with pytest.raises(ImportRunning):
        await work.run(arriving(chats(1)))
    go_on.set()
    assert (await first).as_json()["imported"] == 1
    assert (await work.run(arriving(chats(1)))).as_json()["same"] == 1


async def test_who_leaves_stops_it_and_may_send_it_again(
    work: UploadedImport, manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, create = asyncio.get_running_loop(), manager.repository.create
    begun = asyncio.Event()
    task: asyncio.Task[Any]

    def create_and_tell(session: Any) -> None:
        if not begun.is_set():
            loop.call_soon_threadsafe(begun.set)
            loop.call_soon_threadsafe(task.cancel)
            while not task.cancelling():
                pass
        create(session)

    monkeypatch.setattr(manager.repository, "create", create_and_tell)
    task = asyncio.create_task(work.run(arriving(chats(50))))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 1 <= len(await asyncio.to_thread(manager.list_sessions)) <= 50
    again = (await work.run(arriving(chats(50)))).as_json()
    assert again["imported"] + again["same"] == 50
    assert len(await asyncio.to_thread(manager.list_sessions)) == 50


async def test_a_file_that_is_empty_or_a_broken_zip_file_is_refused(work: UploadedImport) -> None:
    with pytest.raises(ValidationFailed, match="empty"):
        await work.run(arriving())
    with pytest.raises(ValidationFailed, match="broken"):
        await work.run(arriving(b"PK\x03\x04"))


async def test_a_full_disk_is_told(
    work: UploadedImport, manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(session: Any) -> None:
        raise StorageFull("The disk is full.")

    monkeypatch.setattr(manager.repository, "create", full)
    with pytest.raises(StorageFull):
        await work.run(arriving(chats(2)))
