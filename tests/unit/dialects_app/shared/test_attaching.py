"""How the images and files of a request are kept, and in which words they are refused."""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dialects_app.shared.attaching import (
    KNOWN_SECONDS,
    RequestFiles,
)
from dialects_app.shared.errors import error_object
from dialects_app.shared.files import FetchFailed, FetchRefused, given_file, with_files
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import MochiError
from sessions_app.messages import AssistantMessage, Attachment, UserMessage
from tests.unit.sessions_app.attachments.images import png

CAT = png()
MAX_BYTES = 10_000
ANSWER = AssistantMessage(content="A cat.", message_id="a", timestamp="t", model="m")


@pytest.fixture
def attachments(tmp_path):
    store = FileAttachmentStore(tmp_path / "attachments")
    return AttachmentService(store, max_bytes=MAX_BYTES)


@pytest.fixture
def keeper(attachments):
    return RequestFiles(attachments, max_count=3)


class Elsewhere:
    """A web of files by their URLs, and the URLs that were fetched; errors are raised."""

    def __init__(self, **files: bytes | Exception) -> None:
        self._files = {f"https://{name}.example/": each for name, each in files.items()}
        self.fetched: list[str] = []

    @asynccontextmanager
    async def fetch(self, url: str, *, max_bytes: int) -> AsyncIterator[AsyncIterator[bytes]]:
        assert max_bytes == MAX_BYTES
        self.fetched.append(url)
        found = self._files[url]
        if isinstance(found, Exception):
            raise found
        yield _pieces(found)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


def url_of(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def image(url: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}}


async def kept(
    keeper: RequestFiles, *parts: Mapping[str, object], answered: bool = False
) -> list[Attachment]:
    """Keep the files of a message, which may have an answer, and return its attachments."""
    files = [given_file(part, f"p{at}") for at, part in enumerate(parts)]
    message = UserMessage(
        content="",
        attachments=tuple(file.placeholder() for file in files),
        message_id="m",
        timestamp="t",
    )
    messages = [message, *([ANSWER] if answered else [])]
    message, *_ = with_files(messages, await keeper.keep(messages, files))
    return list(message.attachments)


async def refused(keeper: RequestFiles, *parts: Mapping[str, object]) -> tuple[object, object]:
    with pytest.raises(MochiError) as refusal:
        await kept(keeper, *parts)
    error = error_object(refusal.value.code, refusal.value.message, details=refusal.value.details)
    return error["code"], error["param"]


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]


async def test_an_image_is_kept_with_what_its_bytes_say(keeper, attachments):
    [cat] = await kept(keeper, image(url_of(CAT, "text/html")))
    assert (cat.name, cat.media_type, cat.size) == ("image.png", "image/png", len(CAT))
    assert (cat.width, cat.height) == (2, 1)
    assert await attachments.read(cat.id) == CAT


async def test_a_file_keeps_its_name_and_is_no_image(keeper):
    part = {"type": "file", "file": {"file_data": url_of(b"%PDF-1.7"), "filename": "../a.pdf"}}
    [file] = await kept(keeper, part)
    assert (file.name, file.media_type) == ("a.pdf", "application/pdf")


async def test_the_same_bytes_are_stored_once_however_often_they_are_sent(keeper, tmp_path):
    first = await kept(keeper, image(url_of(CAT)), image(url_of(CAT)))
    assert await kept(keeper, image(url_of(CAT))) == first[:1]
    assert first[0] == first[1]
    assert len(await asyncio.to_thread(files_in, tmp_path / "attachments")) == 1


async def test_what_was_uploaded_is_named_by_its_id(keeper, attachments):
    cat = await attachments.keep(CAT, name="cat.png")
    part = {"type": "input_image", "file_id": cat.id, "filename": "cat.png"}
    assert await kept(keeper, part) == [cat]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("data:image/png;base64,a?", "invalid_base64_image"),
        (url_of(b""), "invalid_image"),
        (url_of(b"<svg/>"), "unsupported_image_media_type"),
        (url_of(b"<html>", "image/png"), "unsupported_image_media_type"),
        (url_of(b"%PDF-1.7"), "unsupported_image_media_type"),
        (url_of(bytes(20)), "unsupported_image_media_type"),
        (url_of(png(40_000, 40_000)), "invalid_image"),
        (url_of(CAT[:20]), "invalid_image"),
        (url_of(png(padding=MAX_BYTES)), "image_too_large"),
        ("https://cats.example/", "invalid_image_url"),
    ],
)
async def test_an_image_that_is_not_taken_is_refused_in_openais_words(keeper, url, code):
    assert await refused(keeper, image(url)) == (code, "p0.image_url.url")


async def test_an_image_that_is_not_there_is_not_found(keeper):
    part = {"type": "input_image", "file_id": f"sha256:{'0' * 64}"}
    assert await refused(keeper, part) == ("image_file_not_found", "p0.file_id")


@pytest.mark.parametrize(
    ("data", "code"),
    [("?", "invalid_value"), ("", "invalid_value"), ("A" * 20_000, "attachment_too_large")],
)
async def test_a_file_that_is_not_taken_is_refused_in_our_words(keeper, data, code):
    part = {"type": "input_file", "file_data": data}
    assert await refused(keeper, part) == (code, "p0.file_data")


async def test_a_text_or_a_pdf_that_was_uploaded_is_no_image(keeper, attachments):
    note = await attachments.keep(b"hello", name="note.txt")
    part = {"type": "input_image", "file_id": note.id}
    assert await refused(keeper, part) == ("unsupported_image_media_type", "p0.file_id")
    assert await kept(keeper, {"type": "input_file", "file_id": note.id, "filename": "note.txt"})


async def test_a_message_with_too_many_is_refused_before_any_is_kept(keeper, tmp_path):
    assert await refused(keeper, *[image(url_of(CAT))] * 4) == ("invalid_value", "p3.image_url.url")
    assert await asyncio.to_thread(files_in, tmp_path) == []


async def test_a_url_is_fetched_once_where_that_is_switched_on(attachments):
    web = Elsewhere(cats=CAT)
    keeper = RequestFiles(attachments, max_count=3, fetcher=web)
    first, again = await kept(keeper, *[image("https://cats.example/")] * 2)
    assert first == again
    assert await attachments.read(first.id) == CAT
    assert web.fetched == ["https://cats.example/"]


async def test_a_url_before_the_last_answer_is_not_fetched_again_for_an_hour(attachments):
    web, seconds = Elsewhere(cats=CAT), [0.0]
    keeper = RequestFiles(attachments, max_count=3, fetcher=web, clock=lambda: seconds[0])
    cats = image("https://cats.example/")

    [first] = await kept(keeper, cats)
    assert await kept(keeper, cats, answered=True) == [first]
    assert len(web.fetched) == 1  # as it was when the model saw it
    await kept(keeper, cats)
    assert len(web.fetched) == 2  # shown anew

    seconds[0] = KNOWN_SECONDS + 1
    await kept(keeper, cats, answered=True)
    assert len(web.fetched) == 3
    await asyncio.to_thread(attachments.store.sweep, set, older_than_seconds=-1)
    assert await kept(keeper, cats, answered=True) == [first]
    assert len(web.fetched) == 4  # what was kept is gone


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (FetchRefused("It leads inside."), "invalid_image_url"),
        (FetchFailed("It took too long."), "failed_to_download_image"),
        (b"<html>", "unsupported_image_media_type"),
        (png(padding=MAX_BYTES), "image_too_large"),
    ],
)
async def test_an_image_that_can_t_be_had_is_refused(attachments, answer, code):
    keeper = RequestFiles(attachments, max_count=3, fetcher=Elsewhere(cats=CAT, gone=answer))
    parts = [image("https://cats.example/"), image("https://gone.example/")]
    assert await refused(keeper, *parts) == (code, "p1.image_url.url")
