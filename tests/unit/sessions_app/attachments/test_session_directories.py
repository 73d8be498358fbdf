"""Unused attachments are removed only while all sessions that may use them can be looked at."""

import shutil
from pathlib import Path

import pytest

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.session_directories import WAIT_SECONDS, SessionDirectories
from sessions_app.attachments.sweeping import AttachmentSweep
from sessions_app.messages import Attachment, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages
from tests.unit.sessions_app.attachments.kept import Files

NOW = "2026-11-22T10:00:00.000000+00:00"


class Server(Files):
    """A server with sessions of its own, on a data directory that others may share."""

    def __init__(self, data: Path, sessions: Path, *, seconds: float = 0.0) -> None:
        self.sessions = SessionManager(sessions)
        self.directories = SessionDirectories(data / "attachments", [sessions], now=lambda: seconds)
        self.store = FileAttachmentStore(data / "attachments", note_use=self.directories.note)
        self.sweep = AttachmentSweep(self.store, [self.sessions.repository], self.directories)

    def say(self, attachment: Attachment | None = None) -> None:
        session_id = self.sessions.create("m").session_id
        if attachment is not None:
            self.store.renew([attachment.id])
            said = UserMessage(
                content="?", message_id="1", timestamp=NOW, attachments=(attachment,)
            )
            self.sessions.change(session_id, lambda old: append_messages(old, said, now=NOW))

    def swept(self) -> int:
        self.directories.note()
        return self.store.sweep(self.sweep.referenced, older_than_seconds=0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def here(data: Path) -> Server:
    server = Server(data, data / "chat_sessions")
    server.say()
    return server


def test_a_server_with_other_sessions_keeps_the_files_of_this_one(data: Path, here: Server) -> None:
    asked, lost = here.kept("asked"), here.kept("nobody's")
    here.say(asked)
    other = Server(data, data / "other")
    other.say()
    assert other.swept() == 1
    assert (here.has(asked), here.has(lost)) == (True, False)


def test_nothing_is_removed_while_a_directory_is_not_mounted_though_a_chat_was_begun(
    data: Path, here: Server
) -> None:
    asked, lost = here.kept("asked"), here.kept("nobody's")
    here.say(asked)
    (data / "chat_sessions").rename(data / "volume")
    begun = Server(data, data / "chat_sessions", seconds=WAIT_SECONDS * 99)
    begun.say()
    assert begun.swept() == 0
    [absent] = begun.directories.look().absent
    assert str(data / "chat_sessions") in absent

    shutil.rmtree(data / "chat_sessions")
    (data / "volume").rename(data / "chat_sessions")
    back = Server(data, data / "chat_sessions")
    assert back.swept() == 0  # the sessions that were begun meanwhile are not there now
    [absent] = back.directories.look().absent
    Path(absent.partition("(")[2].rstrip(")")).unlink()  # and are gone for good
    assert back.swept() == 1
    assert (back.has(asked), back.has(lost)) == (True, False)


def test_nothing_is_removed_while_another_servers_sessions_are_away_or_can_not_be_read(
    data: Path, here: Server, tmp_path: Path
) -> None:
    lost = here.kept("nobody's")
    other = Server(data, tmp_path / "other")
    other.say(lost)
    (tmp_path / "other").rename(tmp_path / "moved")
    assert here.swept() == 0
    (tmp_path / "moved").rename(tmp_path / "other")
    [file] = (tmp_path / "other").glob("*.json")
    file.write_text("{")
    assert here.swept() == 0
    file.unlink()
    assert here.swept() == 1


def test_a_data_directory_that_has_files_and_no_records_waits_for_servers_that_come_late(
    data: Path, here: Server
) -> None:
    here.say(here.kept("asked"))
    here.kept("nobody's")
    shutil.rmtree(data / "attachments" / ".sessions")
    assert here.swept() == 0
    assert Server(data, data / "chat_sessions", seconds=WAIT_SECONDS - 1).swept() == 0
    assert Server(data, data / "chat_sessions", seconds=WAIT_SECONDS).swept() == 1


def test_a_data_directory_may_be_copied_and_moved_with_its_sessions(
    data: Path, here: Server, tmp_path: Path
) -> None:
    here.kept("nobody's")
    shutil.copytree(data, tmp_path / "copy")
    assert here.swept() == 1
    shutil.rmtree(data)
    copy = Server(tmp_path / "copy", tmp_path / "copy" / "chat_sessions")
    assert copy.swept() == 1


def test_a_record_that_can_not_be_read_counts_as_one_of_a_directory_that_is_away(
    data: Path, here: Server
) -> None:
    here.kept("nobody's")
    (data / "attachments" / ".sessions" / "0123456789abcdef").write_text("{")
    assert here.swept() == 0
    (data / "attachments" / ".sessions" / "since").write_text("?")
    (data / "attachments" / ".sessions" / "0123456789abcdef").unlink()
    assert here.swept() == 0


def test_a_directory_that_takes_no_record_refuses_no_upload_and_prevents_sweeps(
    data: Path, here: Server
) -> None:
    other = Server(data, data / "other")
    other.say()
    (data / "other" / ".id").mkdir()
    kept = other.kept("kept")
    assert other.has(kept)
    assert other.swept() == 0


def test_a_sweep_that_is_not_due_records_its_directories(data: Path, here: Server) -> None:
    assert here.sweep.run() == 0
    assert not (data / "attachments").exists()  # there is nothing to keep
    (data / "attachments").mkdir()
    assert here.sweep.run() == 0
    assert here.directories.look().is_complete
