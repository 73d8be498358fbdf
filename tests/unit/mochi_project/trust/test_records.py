"""What is remembered of folders: for this user alone, outside of the folders."""

import os
import stat
from pathlib import Path

import pytest

from mochi_project.trust.records import TrustRecords, TrustRecordsError, state_home

FOLDER = Path("/somewhere/data")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "mochi-server"


def test_a_decision_is_kept_in_a_file_for_its_owner(home: Path) -> None:
    TrustRecords().put(FOLDER, trusted=True, parts={"tools": "abc"})

    record = TrustRecords().get(FOLDER)
    assert record is not None
    assert (record.trusted, record.parts) == (True, {"tools": "abc"})
    assert stat.S_IMODE((home / "trust.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_looking_makes_nothing(home: Path) -> None:
    assert TrustRecords().get(FOLDER) is None
    assert not home.exists()


def test_a_decision_is_taken_back() -> None:
    TrustRecords().put(FOLDER, trusted=True, parts={})

    assert TrustRecords().remove(FOLDER) is True
    assert TrustRecords().remove(FOLDER) is False
    assert TrustRecords().get(FOLDER) is None


@pytest.mark.parametrize("content", ["", "{", '{"version": 2, "folders": {}}', "[]"])
def test_a_record_that_is_not_understood_is_left_alone(home: Path, content: str) -> None:
    TrustRecords().put(FOLDER, trusted=True, parts={})
    (home / "trust.json").write_text(content)

    with pytest.raises(TrustRecordsError):
        TrustRecords().get(FOLDER)
    with pytest.raises(TrustRecordsError):
        TrustRecords().put(FOLDER, trusted=True, parts={})
    assert (home / "trust.json").read_text() == content


def test_a_record_that_others_can_write_trusts_nobody(home: Path) -> None:
    TrustRecords().put(FOLDER, trusted=True, parts={})
    (home / "trust.json").chmod(0o666)

    with pytest.raises(TrustRecordsError, match="can be written by other users"):
        TrustRecords().get(FOLDER)


def test_a_directory_that_others_can_write_keeps_no_record(home: Path) -> None:
    home.mkdir(parents=True)
    home.chmod(0o777)

    with pytest.raises(TrustRecordsError, match="not a directory of this user alone"):
        TrustRecords().put(FOLDER, trusted=True, parts={})


def test_a_relative_state_home_is_not_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert state_home() == tmp_path / ".local" / "state" / "mochi-server"


def test_an_account_without_a_home_remembers_until_the_machine_restarts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file" / "state"))

    assert state_home().name == f"mochi-server-{os.geteuid()}"
