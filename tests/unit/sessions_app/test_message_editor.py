"""Messages are deleted and hidden wherever sessions are kept."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_app.objects.repository import ObjectSessionRepository
from sessions_app.errors import InvalidMessageIndex, MessageChanged, SessionBusy
from sessions_app.ids_and_clock import utc_now
from sessions_app.message_editor import MessageEditor
from sessions_app.messages import UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, append_messages
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import Claim, SessionRepository
from tests.claims import claim_session, hold_of
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners

MakeSession = Callable[..., Session]


@pytest.fixture(params=["files", "objects"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> SessionRepository:
    if request.param == "files":
        return FileSessionRepository(tmp_path / "sessions")
    objects = request.getfixturevalue("object_store")
    return ObjectSessionRepository(
        objects.under("sessions"),
        deleted=objects.under("deleted"),
        owners=MemoryOwners(),
        index=MemorySessionIndex(),
    )


@pytest.fixture
def session_id(kept: SessionRepository, make_session: MakeSession) -> str:
    session = make_session("one", "answer", "two", "answer")
    kept.create(session)
    return session.session_id


def test_a_deletion_tells_what_went(kept: SessionRepository, session_id: str) -> None:
    editor = MessageEditor(kept)
    before = editor.messages(session_id)
    change = editor.delete_message(session_id, 1, message_id=before[1].message_id)
    assert (change.message_index, change.messages, change.message_count) == (1, before[1:2], 3)
    assert kept.load(session_id).messages == (before[0], *before[2:])
    assert kept.list().sessions[0].message_count == 3
    with pytest.raises(MessageChanged):
        editor.delete_message(session_id, 1, message_id=before[1].message_id)


def test_a_hidden_message_is_kept_and_can_be_shown(
    kept: SessionRepository, session_id: str
) -> None:
    editor = MessageEditor(kept)
    before = editor.messages(session_id)
    change = editor.hide_message(session_id, 2)
    assert [message.hidden for message in change.messages] == [True]
    assert [message.hidden for message in kept.load(session_id).messages] == [
        *(None, None, True, None)
    ]
    assert editor.hide_message(session_id, 2).messages == change.messages
    editor.hide_message(session_id, 2, hidden=False)
    assert kept.load(session_id).messages == before


def test_messages_stay_while_a_turn_runs(kept: SessionRepository, session_id: str) -> None:
    claim_session(kept, session_id, "t1")
    editor = MessageEditor(kept)
    for change in (editor.delete_message, editor.hide_message):
        with pytest.raises(SessionBusy):
            change(session_id, 0)
    kept.release(session_id, hold_of(kept, "t1"))
    with pytest.raises(InvalidMessageIndex):
        editor.delete_message(session_id, 4)


def test_a_change_is_not_older_than_what_a_dead_turn_left(sessions_dir: Path) -> None:
    sealed: list[str] = []

    def recover(session: Session, _: Claim) -> Session:
        sealed.append(utc_now())
        message = UserMessage(content="sealed", message_id="x", timestamp=sealed[-1])
        return append_messages(session, message, now=sealed[-1])

    manager = SessionManager(sessions_dir=sessions_dir, recover=recover)
    changes: list[Callable[[str], object]] = [
        lambda session_id: manager.edit_message(session_id, 0, "Hello!"),
        lambda session_id: manager.delete_message(session_id, 0),
        lambda session_id: manager.hide_message(session_id, 0),
    ]
    for change in changes:
        session_id = manager.create("m").session_id
        claim_session(manager.repository, session_id, "t1")
        claim = sessions_dir / ".claims" / f"{session_id}.claim"
        claim.unlink()
        claim.symlink_to("t1|0000000000000000|then")  # of a process that is gone
        change(session_id)
        assert manager.get(session_id).metadata.updated_at >= sealed[-1]
    assert len(sealed) == len(changes)
