"""Messages are deleted and hidden wherever sessions are kept."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_app.objects.repository import ObjectSessionRepository
from sessions_app.errors import InvalidMessageIndex, MessageChanged, SessionBusy
from sessions_app.message_editor import MessageEditor
from sessions_app.session import Session
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import SessionRepository
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
