"""What a request says of attachments becomes references."""

import base64
from pathlib import Path

import pytest

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.intake import GivenAttachment, Inline, Reference, resolve
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import MochiError
from tests.unit.sessions_app.attachments import images

PICTURE = images.png()
UNKNOWN = Reference(id="sha256:" + "0" * 64)


@pytest.fixture
def service(tmp_path: Path) -> AttachmentService:
    return AttachmentService(FileAttachmentStore(tmp_path), max_bytes=1000)


async def test_files_and_bytes_become_references(service: AttachmentService) -> None:
    kept = await service.keep(PICTURE, name="first.png")
    found = await resolve(
        service,
        [Reference(id=kept.id, name="again.png"), Inline(data=b"a text"), Reference(id=kept.id)],
        max_count=3,
    )
    assert [one.name for one in found] == ["again.png", "file.txt", "image.png"]
    assert found[0].id == found[2].id == kept.id
    assert await service.read(found[1].id) == b"a text"


async def test_base64_becomes_a_reference_as_a_data_url_too(service: AttachmentService) -> None:
    text = base64.b64encode(PICTURE).decode()
    given = [Inline(data=text), Inline(data=f"data:x/y;base64,{text}"), Inline(data=PICTURE)]
    first, *others = await resolve(service, given, max_count=3)
    assert others == [first, first]
    assert await service.read(first.id) == PICTURE


@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ([Inline(data="%")] * 4, "VALIDATION_ERROR", "attachments"),
        ([Inline(data="%")], "VALIDATION_ERROR", "attachments.0"),
        ([Inline(data="data:text/plain,x")], "VALIDATION_ERROR", "attachments.0"),
        ([Inline(data="")], "VALIDATION_ERROR", "attachments.0"),
        ([Inline(data="A" * 2000)], "ATTACHMENT_TOO_LARGE", "attachments.0"),
        ([Inline(data=b"a")] * 4, "VALIDATION_ERROR", "attachments"),
        ([Inline(data=b"a"), UNKNOWN], "ATTACHMENT_NOT_FOUND", "attachments.1"),
        ([Reference(id="../x")], "ATTACHMENT_NOT_FOUND", "attachments.0"),
        ([Inline(data=b"")], "VALIDATION_ERROR", "attachments.0"),
        ([Inline(data=b"\0")], "VALIDATION_ERROR", "attachments.0"),
        ([Inline(data=b"x" * 1001)], "ATTACHMENT_TOO_LARGE", "attachments.0"),
    ],
)
async def test_what_can_not_be_taken_is_refused_by_its_place(
    service: AttachmentService, given: list[GivenAttachment], code: str, field: str
) -> None:
    with pytest.raises(MochiError) as refused:
        await resolve(service, given, max_count=3)
    assert (refused.value.code, refused.value.details["field"]) == (code, field)
