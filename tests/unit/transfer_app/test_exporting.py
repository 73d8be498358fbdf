"""All sessions go out as one file, and come in elsewhere as they were."""

import io
from pathlib import Path

import pytest

from sessions_app.format.codec import encode
from sessions_app.format.json_pieces import PIECE_BYTES
from sessions_app.service import SessionManager
from sessions_app.session import Session
from tests.unit.sessions_app.attachments.images import png
from tests.unit.transfer_app.stores import (
    MemoryStore,
    manager_in,
    question,
    reference,
    session_of,
)
from transfer_app.bounded_zip import Limits
from transfer_app.exporting import AllExport, AllFormat
from transfer_app.formats.sources import ImportOptions
from transfer_app.opening import open_import

CAT = png()


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.keep(CAT)
    return store


@pytest.fixture
def manager(tmp_path: Path) -> SessionManager:
    return manager_in(tmp_path / "there")


@pytest.fixture
def sessions(manager: SessionManager) -> list[Session]:
    cat = reference(CAT)
    return [
        session_of(manager, question(cat), question(content="ü \ud83d\ude00")),
        session_of(manager, question(cat)),
        manager.update(session_of(manager).session_id, archived=True, title="Old"),
    ]


def written(
    manager: SessionManager, store: MemoryStore, wanted: AllFormat, *, archived: bool | None = None
) -> bytes:
    return b"".join(AllExport(manager, store, archived=archived).pieces(wanted))


@pytest.mark.parametrize("wanted", ["jsonl", "zip"])
def test_all_sessions_come_in_elsewhere_as_they_were(
    wanted: AllFormat,
    manager: SessionManager,
    sessions: list[Session],
    store: MemoryStore,
    tmp_path: Path,
) -> None:
    elsewhere = manager_in(tmp_path / "elsewhere")
    files = store if wanted == "jsonl" else MemoryStore()
    work = open_import(
        io.BytesIO(written(manager, store, wanted)),
        "f",
        sessions=elsewhere,
        store=files,
        limits=Limits(attachment_bytes=1 << 20),
        options=ImportOptions(),
    )
    assert {type(each).__name__ for each in work.run()} == {"ImportedArchive"}
    for session in sessions:
        assert encode(elsewhere.get(session.session_id)) == encode(session)
    assert files.files == store.files


def test_archived_ones_may_be_left_out(
    manager: SessionManager, sessions: list[Session], store: MemoryStore
) -> None:
    assert written(manager, store, "jsonl").count(b"\n") == 3
    assert written(manager, store, "jsonl", archived=False).count(b"\n") == 2
    assert b'"title":"Old"' in written(manager, store, "jsonl", archived=True)


def test_what_is_deleted_meanwhile_or_broken_is_left_out(
    manager: SessionManager, sessions: list[Session], store: MemoryStore, tmp_path: Path
) -> None:
    (tmp_path / "there" / "chat_sessions" / "ffffffffff.json").write_bytes(b"{")
    export = AllExport(manager, store)
    assert export.warning == "1 sessions can't be read and are left out"
    manager.delete(sessions[0].session_id)
    assert b"".join(export.pieces("jsonl")).count(b"\n") == 2


def test_many_sessions_are_sent_in_pieces(manager: SessionManager, store: MemoryStore) -> None:
    for _ in range(4):
        session_of(manager, question(content="x" * PIECE_BYTES))
    sizes = [len(piece) for piece in AllExport(manager, store).pieces("jsonl")]
    assert len(sizes) >= 4
    assert max(sizes) < 3 * PIECE_BYTES
