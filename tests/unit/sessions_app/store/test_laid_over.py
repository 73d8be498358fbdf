"""An owner's records lie over those that all owners share, and nothing writes to these."""

from pathlib import Path

import pytest

from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.file_records import FileRecords
from sessions_app.store.laid_over import LaidOverRecords


@pytest.fixture
def shared(tmp_path: Path) -> FileRecords:
    records = FileRecords(tmp_path / "shared", limit=100)
    records.put("both.md", b"shared")
    records.put("shared.md", b"shared")
    return records


@pytest.fixture
def own(tmp_path: Path) -> FileRecords:
    records = FileRecords(tmp_path / "own", limit=100)
    records.put("both.md", b"own")
    records.put("own.md", b"own")
    return records


@pytest.fixture
def records(own: FileRecords, shared: FileRecords) -> LaidOverRecords:
    return LaidOverRecords(own, shared)


def test_the_owners_record_wins(records: LaidOverRecords) -> None:
    assert records.names() == ["both.md", "own.md", "shared.md"]
    assert records.read("both.md") == b"own"
    assert records.read("shared.md") == b"shared"
    assert records.read("none.md") is None
    assert records.read_all(str.islower) == {
        "both.md": b"own",
        "own.md": b"own",
        "shared.md": b"shared",
    }
    assert records.changed_at().keys() == {"both.md", "own.md", "shared.md"}


def test_what_is_written_is_the_owners(
    records: LaidOverRecords, own: FileRecords, shared: FileRecords
) -> None:
    assert records.put("shared.md", b"mine", exists=True)
    assert records.put("new.md", b"mine", exists=False)
    assert records.put("any.md", b"mine")
    assert not records.put("none.md", b"mine", exists=True)
    assert not records.put("new.md", b"again", exists=False)
    assert records.swap("both.md", b"own", b"swapped")
    assert not records.swap("both.md", b"own", b"swapped again")

    assert own.names() == ["any.md", "both.md", "new.md", "own.md", "shared.md"]
    assert records.read("shared.md") == b"mine"
    assert {name: shared.read(name) for name in shared.names()} == {
        "both.md": b"shared",
        "shared.md": b"shared",
    }


def test_what_is_deleted_shows_the_shared_one_again(records: LaidOverRecords) -> None:
    assert records.delete("both.md")
    assert records.read("both.md") == b"shared"
    assert not records.delete("both.md")
    records.discard("a1b2c3d4e5")
    assert records.read("both.md") == b"shared"


def test_an_unreadable_record_of_the_owner_does_not_show_the_shared_one(
    records: LaidOverRecords, tmp_path: Path
) -> None:
    (tmp_path / "own" / "shared.md").mkdir()

    with pytest.raises(UnreadableFileError):
        records.read("shared.md")
