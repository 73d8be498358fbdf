"""Files that a person names are kept; what is no file is refused and nothing is waited for."""

import asyncio
import os
from pathlib import Path

import pytest

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import AttachmentTooLarge, ValidationFailed
from terminal_app.attaching import PIECE_BYTES, kept_file
from tests.unit.sessions_app.attachments.images import png

CAT = png(padding=PIECE_BYTES)


@pytest.fixture
def attachments(tmp_path: Path) -> AttachmentService:
    return AttachmentService(FileAttachmentStore(tmp_path / "kept"), max_bytes=len(CAT))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my cat.png").write_bytes(CAT)
    (tmp_path / "large.png").write_bytes(png(padding=2 * PIECE_BYTES))
    (tmp_path / "program").write_bytes(b"\x7fELF\0")
    (tmp_path / "link.png").symlink_to("my cat.png")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize("name", ["my cat.png", "link.png"])
async def test_a_file_is_kept_under_its_name(
    attachments: AttachmentService, folder: Path, name: str
) -> None:
    attachment = await kept_file(attachments, folder / name)
    assert (attachment.name, attachment.media_type) == (name, "image/png")
    assert await attachments.read(attachment.id) == CAT


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("large.png", AttachmentTooLarge),
        ("program", ValidationFailed),
        ("pipe", ValidationFailed),
        (".", ValidationFailed),
        ("none.png", FileNotFoundError),
    ],
)
async def test_what_can_not_be_kept_is_refused(
    attachments: AttachmentService, folder: Path, name: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await kept_file(attachments, folder / name)
    left = await asyncio.to_thread(list, (folder / "kept").glob("??/*"))
    assert left == []


async def test_the_home_folder_may_be_a_tilde(
    attachments: AttachmentService, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert (await kept_file(attachments, Path("~/my cat.png"))).size == len(CAT)
