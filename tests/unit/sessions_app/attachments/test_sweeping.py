"""Attachments are swept once nothing refers to them, and never before."""

from pathlib import Path

import pytest

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.sweeping import DAY, HOUR, AttachmentSweep
from sessions_app.inbox import EMPTY_INBOX, InboxMessage
from sessions_app.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, append_messages, with_inbox
from tests.unit.sessions_app.attachments.kept import Files

NOW = "2026-11-22T10:00:00.000000+00:00"


class Place(Files):
    """Sessions, their attachments, and a sweep with a clock of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.seconds = 0.0
        self.folder = folder
        self.store = FileAttachmentStore(folder / "attachments")
        self.sessions = SessionManager(folder / "sessions")
        repositories = [self.sessions.repository]
        self.sweep = AttachmentSweep(self.store, repositories, clock=lambda: self.seconds)

    def swept(self) -> int:
        return self.store.sweep(self.sweep.referenced, older_than_seconds=0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_messages_results_and_replaced_answers_refer_to_stays(place: Place) -> None:
    asked, found, replaced, nobodys = map(place.kept, ["asked", "found", "replaced", "nobody's"])
    result = ToolMessage(content="", message_id="2", timestamp=NOW, attachments=(found,))
    call = ToolCall(id="c", name="look", arguments={})
    variant = (
        AssistantMessage(content="", message_id="3", timestamp=NOW, model="m", tool_calls=(call,)),
        ToolMessage(
            content="", message_id="5", timestamp=NOW, tool_call_id="c", attachments=(replaced,)
        ),
        AssistantMessage(content="No", message_id="6", timestamp=NOW, model="m"),
    )
    answer = AssistantMessage(
        content="Yes", message_id="4", timestamp=NOW, model="m", variants=(variant,)
    )
    session = place.sessions.create("m")

    def said(before: Session) -> Session:
        user = UserMessage(content="?", message_id="1", timestamp=NOW, attachments=(asked,))
        return append_messages(before, user, result, answer, now=NOW)

    place.sessions.change(session.session_id, said)
    fork = place.sessions.fork(session.session_id)
    assert place.swept() == 1
    assert [place.has(one) for one in (asked, found, replaced, nobodys)] == [True] * 3 + [False]
    place.sessions.delete(session.session_id)
    assert place.swept() == 0
    place.sessions.delete(fork.session_id)
    assert place.swept() == 0
    place.sessions.create("m")
    assert place.swept() == 3


def test_nothing_is_removed_while_the_sessions_are_not_mounted(
    place: Place, tmp_path: Path
) -> None:
    asked = place.kept("asked")
    user = UserMessage(content="?", message_id="1", timestamp=NOW, attachments=(asked,))
    session_id = place.sessions.create("m").session_id
    place.sessions.change(session_id, lambda before: append_messages(before, user, now=NOW))
    (place.folder / "sessions").rename(tmp_path / "elsewhere")
    (place.folder / "sessions").mkdir()
    agents = SessionManager(place.folder / "agents")
    agents.create("m")
    repositories = [place.sessions.repository, agents.repository]
    sweep = AttachmentSweep(place.store, repositories)
    assert place.store.sweep(sweep.referenced, older_than_seconds=0) == 0
    assert place.has(asked)


def test_what_only_a_newer_server_can_read_stays(place: Place) -> None:
    asked, replaced = map(place.kept, ["asked", "replaced"])
    session = place.sessions.create("m")
    told = {
        "attachments": [{"id": asked.id, "name": "a", "duration": 3}],
        "variants": {"form": "new", "of": [replaced.id]},
    }
    user = UserMessage(content="?", message_id="1", timestamp=NOW, extra=told)
    place.sessions.change(session.session_id, lambda old: append_messages(old, user, now=NOW))
    assert place.swept() == 0


def test_nothing_is_removed_while_a_session_can_not_be_read(place: Place) -> None:
    lost = place.kept("nobody's")
    place.sessions.create("m")
    (place.folder / "sessions" / "00000000ff.json").write_text("{")
    assert place.swept() == 0
    assert place.has(lost)


def test_a_fork_keeps_what_its_original_referred_to_though_that_vanishes(place: Place) -> None:
    asked = place.kept("asked")
    user = UserMessage(content="?", message_id="1", timestamp=NOW, attachments=(asked,))
    first = place.sessions.create("m").session_id
    place.sessions.change(first, lambda before: append_messages(before, user, now=NOW))
    repository = Forking(place.sessions, first)
    sweep = AttachmentSweep(place.store, [repository])  # type: ignore[list-item]
    assert place.store.sweep(sweep.referenced, older_than_seconds=0) == 0
    assert place.has(asked)


class Forking:
    """Sessions of which one is forked and deleted as soon as all were listed."""

    def __init__(self, sessions: SessionManager, session_id: str) -> None:
        self.sessions = sessions
        self.left = [session_id]
        self.load = sessions.repository.load

    def list(self, *, anew: bool) -> object:
        listing = self.sessions.repository.list(anew=anew)
        while self.left:
            session_id = self.left.pop()
            self.sessions.fork(session_id)
            self.sessions.delete(session_id)
        return listing


def test_it_is_done_an_hour_after_the_start_and_once_a_day(place: Place) -> None:
    calls: list[float] = []
    place.store.sweep = lambda *_, **more: calls.append(more["older_than_seconds"]) or 0  # type: ignore[method-assign]
    for place.seconds in (0.0, HOUR - 1, HOUR, HOUR + 1, DAY, HOUR + DAY):
        place.sweep.run()
    assert calls == [DAY, DAY]


def test_what_a_waiting_message_refers_to_stays(place: Place) -> None:
    attached, brought = map(place.kept, ["attached", "brought"])
    session = place.sessions.create("m")
    message = InboxMessage(
        message_id="1",
        content="?",
        queued_at=NOW,
        attachments=(attached,),
        request={"messages": [{"attachments": [{"id": brought.id}]}]},
    )

    def queued(before: Session) -> Session:
        return with_inbox(before, before.inbox.append(message))

    place.sessions.change(session.session_id, queued)
    assert place.swept() == 0

    place.sessions.change(session.session_id, lambda one: with_inbox(one, EMPTY_INBOX))
    assert place.swept() == 2
