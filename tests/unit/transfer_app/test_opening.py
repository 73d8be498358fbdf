"""One way in: archives of this server and exports of others are told apart by what they hold."""

import io
import zipfile
from pathlib import Path

import pytest

from sessions_app.errors import ValidationFailed
from tests.unit.sessions_app.attachments.images import png
from tests.unit.transfer_app.formats.exports import FOLDER
from tests.unit.transfer_app.stores import (
    MemoryStore,
    archive_of,
    manager_in,
    question,
    reference,
    session_of,
)
from transfer_app.archive_import import ImportedArchive, SessionImporter
from transfer_app.bounded_zip import Limits
from transfer_app.formats.sources import ImportOptions, Source
from transfer_app.importing import ConversationImport
from transfer_app.opening import open_import

CAT = png()


def opened(
    data: bytes, folder: Path, *, source: Source = "auto", dry_run: bool = False
) -> SessionImporter | ConversationImport:
    return open_import(
        io.BytesIO(data),
        "f",
        sessions=manager_in(folder),
        store=MemoryStore(),
        limits=Limits(attachment_bytes=1 << 20),
        options=ImportOptions(source=source, dry_run=dry_run, default_model=lambda: "m"),
    )


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    store = MemoryStore()
    store.keep(CAT)
    return archive_of(session_of(manager_in(tmp_path / "there"), question(reference(CAT))), store)


def test_archives_of_ours_are_taken_as_such(archive: bytes, tmp_path: Path) -> None:
    work = opened(archive, tmp_path / "here")
    assert isinstance(work, SessionImporter)
    assert work.progress == (0, 1)
    assert [each.outcome for each in work.run()] == ["imported"]
    assert work.progress == (1, 1)
    assert work.attachments_added == 1


def test_a_dry_run_of_an_archive_writes_nothing(archive: bytes, tmp_path: Path) -> None:
    work = opened(archive, tmp_path / "here", dry_run=True)
    (found,) = work.run()
    assert isinstance(work, SessionImporter)
    assert (found.outcome, work.attachments_added) == ("imported", 0)
    assert not manager_in(tmp_path / "here").list_sessions()


def test_everything_else_is_an_export(tmp_path: Path) -> None:
    data = (FOLDER / "claude.json").read_bytes()
    assert isinstance(opened(data, tmp_path), ConversationImport)


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, data in files.items():
            file.writestr(name.replace("__", "."), data)
    return out.getvalue()


def test_a_zip_file_in_a_zip_file_is_unpacked(archive: bytes, tmp_path: Path) -> None:
    export = zipped(conversations__json=(FOLDER / "claude.json").read_bytes())
    (found, *_) = opened(zipped(export__zip=export, report__html=b"x"), tmp_path / "here").run()
    assert isinstance(found, ImportedArchive)
    assert isinstance(opened(zipped(own__zip=archive), tmp_path / "there"), SessionImporter)


def test_several_zip_files_in_one_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ValidationFailed, match="holds 2 zip files"):
        opened(zipped(a__zip=zipped(x=b""), b__zip=zipped(x=b"")), tmp_path)
