"""What is damaged, gone or half-written is found without reading everything."""

import os
from pathlib import Path

import pytest

from sessions_app.attachments import integrity
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.integrity import AttachmentReport, check_attachments
from sessions_app.attachments.service import keep
from sessions_app.messages import Attachment, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import append_messages

NOW = "2026-11-22T10:00:00.000000+00:00"


class Place:
    """Sessions and their attachments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "attachments"
        self.store = FileAttachmentStore(self.folder)
        self.sessions = SessionManager(folder / "sessions")

    def kept(self, text: str) -> Attachment:
        return keep(self.store, text.encode(), name=None, max_bytes=1000)

    def said_with(self, *attachments: Attachment) -> str:
        session_id = self.sessions.create("m").session_id
        user = UserMessage(content="?", message_id="1", timestamp=NOW, attachments=attachments)
        self.sessions.change(session_id, lambda before: append_messages(before, user, now=NOW))
        return session_id

    def path(self, attachment: Attachment) -> Path:
        name = attachment.id.removeprefix("sha256:")
        return self.folder / name[:2] / name

    def checked(self, **most: int) -> AttachmentReport:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in most.items():
                patch.setattr(integrity, name.upper(), value)
            return check_attachments(self.store, [self.sessions.repository])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_whole_is_counted(place: Place) -> None:
    place.said_with(place.kept("one"), place.kept("three"))
    assert place.checked() == AttachmentReport(
        files=2, size=8, hashed=2, damaged=[], missing={}, unfinished=0
    )


def test_other_bytes_are_found_by_reading(place: Place) -> None:
    damaged, whole = place.kept("one"), place.kept("two")
    place.said_with(damaged, whole)
    place.path(damaged).write_text("ONE")
    assert list(place.checked().damaged) == [damaged.id]


def test_what_is_cut_off_is_found_by_what_its_message_says(place: Place) -> None:
    cut, emptied = place.kept("one"), place.kept("nobody's")
    place.said_with(cut)
    os.truncate(place.path(cut), 1)
    os.truncate(place.path(emptied), 0)
    report = place.checked(most_hashed=0)
    assert set(report.damaged) == {cut.id, emptied.id}


def test_what_is_gone_is_named_with_its_session(place: Place) -> None:
    gone = place.kept("one")
    session_id = place.said_with(gone)
    place.path(gone).unlink()
    assert dict(place.checked().missing) == {gone.id: session_id}
    assert place.checked(most_sessions=0).missing == {}


def test_the_files_that_were_used_last_are_read_as_far_as_wanted(place: Place) -> None:
    old, new = place.kept("old"), place.kept("new")
    for each in (old, new):
        place.path(each).write_text("???")
    os.utime(place.path(old), (1, 1))
    report = place.checked(most_hashed=5)
    assert (report.hashed, list(report.damaged)) == (1, [new.id])


def test_what_uploads_left_is_counted(place: Place) -> None:
    writer = place.store.begin(max_bytes=10)
    (left,) = place.folder.glob(".incoming/*")
    os.utime(left, (1, 1))
    assert place.checked().unfinished == 1
    writer.abandon()
    assert place.checked().unfinished == 0
