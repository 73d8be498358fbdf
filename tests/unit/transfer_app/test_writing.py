"""A session and its attachments become one zip file, bit by bit."""

import io
import zipfile
from pathlib import Path

from sessions_app.format.codec import encode
from tests.unit.sessions_app.attachments.images import png
from tests.unit.transfer_app.stores import (
    MemoryStore,
    archive_of,
    archive_pieces,
    manager_in,
    question,
    reference,
    session_of,
)
from transfer_app.layout import attachment_name, session_name
from transfer_app.writing import (
    PIECE_BYTES,
    WORK_BYTES,
    kept_files,
    session_entries,
    zip_pieces,
)

CAT, DOG = png(), png(3, 3, padding=3 * PIECE_BYTES)


def test_an_archive_has_the_session_as_its_file_is_and_each_file_once(tmp_path: Path) -> None:
    store = MemoryStore()
    store.keep(CAT)
    store.keep(DOG)
    session = session_of(
        manager_in(tmp_path),
        question(reference(CAT), reference(DOG)),
        question(reference(CAT, "again.png")),
    )
    data = archive_of(session, store)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert file.testzip() is None
        assert {name: file.read(name) for name in file.namelist()} == {
            session_name(session.session_id): encode(session),
            attachment_name(reference(CAT).id): CAT,
            attachment_name(reference(DOG).id): DOG,
        }
    assert archive_of(session, store) == data


def test_an_archive_is_made_in_pieces_of_about_a_mebibyte(tmp_path: Path) -> None:
    store = MemoryStore()
    store.keep(DOG)
    session = session_of(manager_in(tmp_path), question(reference(DOG)))
    sizes = [len(piece) for piece in archive_pieces(session, store)]
    assert sum(sizes) > 3 * PIECE_BYTES
    assert max(sizes) < 2 * PIECE_BYTES


def test_what_takes_little_room_is_made_in_as_little_work(tmp_path: Path) -> None:
    """The thread that makes a piece goes on when whoever asked has left."""
    manager = manager_in(tmp_path)
    entries = [
        entry
        for _ in range(10)
        for entry in session_entries(
            session_of(manager, question(content="x" * WORK_BYTES)), (), MemoryStore()
        )
    ]
    pieces = list(zip_pieces(entries))
    assert sum(map(len, pieces)) < WORK_BYTES
    assert len(pieces) > 10


def test_what_is_not_kept_any_more_is_named_and_the_rest_is_written(tmp_path: Path) -> None:
    store = MemoryStore()
    store.keep(CAT)
    session = session_of(manager_in(tmp_path), question(reference(CAT), reference(DOG)))
    _, missing = kept_files(session, store)
    assert missing == [reference(DOG)]
    with zipfile.ZipFile(io.BytesIO(archive_of(session, store))) as file:
        assert len(file.namelist()) == 2
