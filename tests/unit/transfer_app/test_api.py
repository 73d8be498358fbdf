"""A session is exported over HTTP: as its file, to read, or with its attachments."""

import asyncio
import io
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.test import AsyncClient

import mochi_project.urls  # noqa: F401 - not within the first request
from mochi_project.configuration.loading import MochiSettings
from mochi_project.memory.large_responses import LARGE_BYTES, LargeResponses
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from models_app.ollama.language_model import OllamaLanguageModel
from sessions_app.attachments.service import AttachmentService
from sessions_app.service import SessionManager
from sessions_app.services import file_attachments
from tests.services import install_services, services_of
from tests.unit.sessions_app.attachments.images import png
from tests.unit.transfer_app.formats.exports import FOLDER
from tests.unit.transfer_app.stores import question, reference, session_of
from transfer_app.api import MOST_NAMED, PiecesFromThreads
from transfer_app.bounded_zip import Limits
from transfer_app.reading import SessionArchive

CAT, DOG = png(), png(3, 3)


@pytest.fixture
def settings_here(tmp_path: Path) -> MochiSettings:
    return MochiSettings(data_dir=tmp_path)


@pytest.fixture
def manager(settings_here: MochiSettings) -> SessionManager:
    return SessionManager(settings_here.resolved_sessions_dir)


@pytest.fixture
def large_responses() -> LargeResponses:
    return LargeResponses(most=1, wait_seconds=0.01)


@pytest.fixture
def client(
    settings_here: MochiSettings, manager: SessionManager, large_responses: LargeResponses
) -> Iterator[AsyncClient]:
    models = ModelCatalogue(OllamaLanguageModel(host="http://127.0.0.1:1"))
    services = services_of(
        {
            MochiSettings: settings_here,
            SessionManager: manager,
            AttachmentService: AttachmentService(
                file_attachments(settings_here), max_bytes=1 << 20
            ),
            LargeResponses: large_responses,
            DefaultModel: DefaultModel(models, None),
        }
    )
    install_services(services)
    yield AsyncClient()
    install_services(None)


def keep(settings_here: MochiSettings, data: bytes) -> None:
    writer = file_attachments(settings_here).begin(max_bytes=1 << 20)
    writer.write(data)
    writer.finish()


async def export(client: AsyncClient, session_id: str, query: str = "") -> tuple[Any, bytes]:
    answer = await client.get(f"/api/v1/sessions/{session_id}/export{query}")
    return answer, b"".join([piece async for piece in answer])


async def test_attachments_that_a_file_made_up_are_counted_and_never_in_a_header(
    client: AsyncClient, manager: SessionManager
) -> None:
    made_up = [msgspec.structs.replace(reference(CAT), id=f"{n}\r\nx-y: z") for n in range(3000)]
    message = question(*made_up, reference(CAT))
    session_id = (await asyncio.to_thread(session_of, manager, message)).session_id
    answer, body = await export(client, session_id, "?format=zip")
    assert answer.status_code == 200
    assert answer["x-mochi-warning"] == f"not kept any more: {reference(CAT).id}, 3000 more"
    assert zipfile.ZipFile(io.BytesIO(body)).namelist() == [f"chat_sessions/{session_id}.json"]


async def test_a_header_names_a_few_of_many_attachments(
    client: AsyncClient, manager: SessionManager
) -> None:
    lost = [reference(png(width)) for width in range(1, 31)]
    session_id = (await asyncio.to_thread(session_of, manager, question(*lost))).session_id
    answer, _ = await export(client, session_id, "?format=zip")
    assert answer["x-mochi-warning"].count("sha256:") == MOST_NAMED
    assert answer["x-mochi-warning"].endswith(", 10 more")


async def test_a_session_is_its_file_or_a_text_to_read(
    client: AsyncClient, manager: SessionManager
) -> None:
    session_id = (await asyncio.to_thread(session_of, manager, question())).session_id
    answer, body = await export(client, session_id)
    assert body.decode() == await asyncio.to_thread(manager.export, session_id)
    assert answer["Content-Type"].startswith("application/json")
    assert answer["Content-Disposition"] == f'attachment; filename="session-{session_id}.json"'
    answer, body = await export(client, session_id, "?format=markdown")
    assert b"What is this?" in body
    assert answer["Content-Type"].startswith("text/markdown")


async def test_a_zip_file_has_the_attachments_too_and_can_be_taken_in(
    client: AsyncClient, manager: SessionManager, settings_here: MochiSettings
) -> None:
    await asyncio.to_thread(keep, settings_here, CAT)
    session = await asyncio.to_thread(session_of, manager, question(reference(CAT)))
    answer, body = await export(client, session.session_id, "?format=zip")
    assert (answer["Content-Type"], answer.status_code) == ("application/zip", 200)
    assert answer["Content-Disposition"].endswith('.zip"')
    assert "x-mochi-warning" not in answer.headers
    archive = SessionArchive(io.BytesIO(body), Limits(attachment_bytes=1 << 20))
    assert archive.session(session.session_id) == session
    assert b"".join(archive.pieces(reference(CAT).id)) == CAT


async def test_what_is_not_kept_any_more_is_a_warning(
    client: AsyncClient, manager: SessionManager
) -> None:
    session = await asyncio.to_thread(session_of, manager, question(reference(DOG)))
    answer, body = await export(client, session.session_id, "?format=zip")
    assert answer["x-mochi-warning"] == f"not kept any more: {reference(DOG).id}"
    with zipfile.ZipFile(io.BytesIO(body)) as file:
        assert file.namelist() == [f"chat_sessions/{session.session_id}.json"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/ffffffffff/export", 404, "SESSION_NOT_FOUND"),
        ("/A1B2C3D4E5/export?format=zip", 404, "SESSION_NOT_FOUND"),
        ("/ffffffffff/export?format=exe", 422, "VALIDATION_ERROR"),
    ],
)
async def test_bad_requests_are_refused(
    client: AsyncClient, path: str, status: int, code: str
) -> None:
    answer = await client.get(f"/api/v1/sessions{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_large_sessions_are_sent_to_a_few_at_a_time(
    client: AsyncClient, manager: SessionManager, large_responses: LargeResponses
) -> None:
    message = question(content="x" * (LARGE_BYTES + 1))
    large = (await asyncio.to_thread(session_of, manager, message)).session_id
    first = await client.get(f"/api/v1/sessions/{large}/export")
    assert large_responses.is_full
    refused = await client.get(f"/api/v1/sessions/{large}/export")
    assert refused.json()["error"]["code"] == "TOO_MANY_LARGE_ANSWERS"
    assert len(b"".join([piece async for piece in first])) > LARGE_BYTES
    await asyncio.sleep(0)
    assert not large_responses.is_full


async def test_whoever_leaves_early_leaves_its_place(large_responses: LargeResponses) -> None:
    pieces = PiecesFromThreads(iter([b"1", b"2"]), await large_responses.enter())
    assert await anext(pieces) == b"1"
    await pieces.aclose()
    await asyncio.sleep(0)
    assert not large_responses.is_full


async def test_the_making_of_pieces_ends_with_whoever_leaves(
    large_responses: LargeResponses,
) -> None:
    is_made, is_left, ended = threading.Event(), threading.Event(), threading.Event()

    def made() -> Iterator[bytes]:
        try:
            yield b"1"
            is_made.set()
            is_left.wait(60)
            yield b"2"
        finally:
            ended.set()

    pieces = PiecesFromThreads(made(), await large_responses.enter())
    await anext(pieces)
    reading = asyncio.ensure_future(anext(pieces))
    await asyncio.to_thread(is_made.wait, 60)
    reading.cancel()
    leaving = asyncio.ensure_future(pieces.aclose())
    await asyncio.sleep(0)
    is_left.set()
    await leaving
    assert ended.is_set()
    assert not large_responses.is_full


@pytest.mark.parametrize(("wanted", "begin"), [("jsonl", b'{"metadata"'), ("zip", b"PK")])
async def test_all_sessions_are_sent_as_a_file(
    client: AsyncClient, manager: SessionManager, wanted: str, begin: bytes
) -> None:
    for _ in range(2):
        await asyncio.to_thread(session_of, manager, question())
    reply: Any = await client.get("/api/v1/export", {"format": wanted})
    assert reply.status_code == 200
    assert reply["content-disposition"] == f'attachment; filename="sessions.{wanted}"'
    data = b"".join([piece async for piece in reply])
    assert data.startswith(begin)
    lines = data.count(b"\n") if wanted == "jsonl" else 2
    assert lines == 2
    assert "x-mochi-warning" not in reply


async def test_exports_of_all_are_large_answers(
    client: AsyncClient, large_responses: LargeResponses
) -> None:
    place = await large_responses.enter()
    refused = await client.get("/api/v1/export")
    assert refused.json()["error"]["code"] == "TOO_MANY_LARGE_ANSWERS"
    place.leave()
    for _ in range(2):
        reply: Any = await client.get("/api/v1/export", {"archived": "true"})
        assert b"".join([piece async for piece in reply]) == b""


async def send(client: AsyncClient, source: str, query: str = "") -> dict[str, Any]:
    data = await asyncio.to_thread((FOLDER / f"{source}.json").read_bytes)
    reply = await client.post(
        f"/api/v1/import{query}", data, content_type="application/octet-stream"
    )
    assert reply.status_code == 200, reply.content
    answer: dict[str, Any] = reply.json()
    return answer


async def test_an_export_of_another_program_is_taken_in(
    client: AsyncClient, manager: SessionManager
) -> None:
    tried = await send(client, "librechat", "?branches=true&dry_run=true&model=mine")
    assert (tried["dry_run"], tried["imported"], tried["branches"]) == (True, 2, 1)
    assert not await asyncio.to_thread(manager.list_sessions)
    done = await send(client, "librechat", "?branches=true&model=mine")
    assert done == {**tried, "dry_run": False}
    listed = await asyncio.to_thread(manager.list_sessions)
    assert {each.model for each in listed} == {"mine"}
    assert (await send(client, "librechat"))["same"] == 1


async def test_what_is_no_export_is_told(client: AsyncClient) -> None:
    told = await send(client, "librechat", "?source=claude")
    assert told["broken"] == 1
    assert "claude" in told["problems"][0]["reason"]
    refused = await client.post("/api/v1/import?source=odd", b"x", content_type="text/plain")
    assert refused.status_code == 422
