"""``manage.py sessions``: for people, and with ``--json`` for scripts."""

import asyncio
import json
import os
import pty
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from agents_app.deletion import DeletionWithAgents
from agents_app.sessions import AgentChats
from sessions_app.deletion import SessionDeletion
from sessions_app.errors import SessionNotFound
from sessions_app.list_query import SessionPage
from sessions_app.messages import AssistantMessage, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, SessionMetadata, append_messages
from tests.claims import claim_session
from tests.services import install_services, services_of

NOW = "2026-11-21T10:00:00.000000+00:00"


class Turns:
    """Turns on sessions, which end at once when they are cancelled."""

    def __init__(self, manager: SessionManager) -> None:
        self._repository = manager.repository

    async def cancel(self, session_id: str, turn_id: str | None = None) -> None:
        claim = await asyncio.to_thread(self._repository.claim_of, session_id)
        assert claim is not None
        await asyncio.to_thread(self._repository.release, session_id, claim.hold)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[SessionManager]:
    manager = SessionManager(sessions_dir=tmp_path / "chat_sessions")
    chats = SessionManager(sessions_dir=tmp_path / "agent_chats")
    deletion = DeletionWithAgents(manager, chats, Turns(manager).cancel)
    services = services_of({SessionManager: manager, AgentChats: chats, SessionDeletion: deletion})
    install_services(services)
    yield manager
    install_services(None)


@pytest.fixture
def talk(manager: SessionManager) -> str:
    session_id = manager.create("qwen3:14b").session_id
    manager.repository.update(
        session_id,
        lambda session: append_messages(
            session,
            UserMessage(content="What is 1+1?", message_id="1", timestamp=NOW),
            AssistantMessage(
                content="Two\x1b[2J, surely.", model="m", message_id="2", timestamp=NOW
            ),
            now=NOW,
        ),
    )
    return session_id


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("sessions", *arguments, stdout=output)
    return output.getvalue()


def test_a_list_names_every_session(talk: str, manager: SessionManager) -> None:
    manager.create("other")
    listed = json.loads(run("list", "--json"))
    assert {item["session_id"] for item in listed["sessions"]} >= {talk}
    assert (listed["total"], listed["unreadable"]) == (2, [])
    assert talk in run("list")
    assert "1 of 2 sessions" in run("list", "--limit", "1")
    assert json.loads(run("list", "--search", "what is", "--json"))["total"] == 1


def test_a_list_names_what_is_unreadable(manager: SessionManager, tmp_path: Path) -> None:
    manager.create("m")
    (tmp_path / "chat_sessions" / "0000000000.json").touch()
    errors = StringIO()
    call_command("sessions", "list", stdout=StringIO(), stderr=errors)
    assert "0000000000.json can't be read: empty" in errors.getvalue()


def test_a_session_is_shown_without_steering_the_terminal(talk: str) -> None:
    shown = run("show", talk)
    assert "What is 1+1?" in shown
    assert "\x1b" not in shown
    assert json.loads(run("show", talk, "--json"))["message_count"] == 2


def test_a_session_is_deleted_without_a_question_when_told_so(
    talk: str, manager: SessionManager
) -> None:
    assert json.loads(run("delete", talk, "--yes", "--json")) == {"deleted": talk}
    with pytest.raises(SessionNotFound):
        manager.get(talk)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Put a terminal in the place of stdin, and return what types a line into it."""
    ours, theirs = pty.openpty()
    with open(theirs) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield lambda line: os.write(ours, f"{line}\n".encode()) and None
    os.close(ours)


@pytest.mark.parametrize(("flags", "kept"), [((), 1), (("--agents",), 0)])
def test_agents_sessions_go_with_their_session_when_asked(
    talk: str, tmp_path: Path, flags: tuple[str, ...], kept: int
) -> None:
    chats = SessionManager(sessions_dir=tmp_path / "agent_chats")
    extra = {"agent_name": "coder", "called_by": {"session_id": talk}}
    chats.repository.create(
        Session(
            metadata=SessionMetadata(
                session_id="0123456789", model="m", created_at=NOW, updated_at=NOW, extra=extra
            )
        )
    )
    run("delete", talk, "--yes", *flags)
    assert len(chats.list().sessions) == kept


def test_several_sessions_are_deleted_with_what_runs_on_them_when_told_so(
    manager: SessionManager, talk: str
) -> None:
    busy = manager.create("qwen3:14b").session_id
    claim_session(manager.repository, busy, "t1")
    with pytest.raises(CommandError, match="1 of 3 sessions could not be deleted"):
        run("delete", talk, busy, "ffffffffff", "--yes")
    assert [each.session_id for each in manager.list_sessions()] == [busy]

    told = json.loads(run("delete", talk, busy, "--yes", "--force", "--json"))

    assert told == {talk: "not_found", busy: "deleted"}
    assert not manager.list_sessions()


def test_a_person_is_asked_before_a_session_is_deleted(
    talk: str, manager: SessionManager, terminal: Callable[[str], None]
) -> None:
    errors = StringIO()
    terminal("n")
    with pytest.raises(CommandError, match="Not deleted"):
        call_command("sessions", "delete", talk, stderr=errors)
    assert f"Delete session {talk} with 2 messages for good? [y/N]" in errors.getvalue()
    assert manager.get(talk)

    terminal("y")
    assert run("delete", talk) == f"Session {talk} is deleted.\n"
    with pytest.raises(SessionNotFound):
        manager.get(talk)


def test_where_nobody_can_be_asked_nothing_is_deleted(
    talk: str, manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("y\n"))
    with pytest.raises(CommandError, match="no terminal to ask on"):
        run("delete", talk)
    assert manager.get(talk)


def test_an_unknown_session_is_an_error_in_words(manager: SessionManager) -> None:
    for action in ("show", "export", "delete"):
        with pytest.raises(CommandError, match="not found"):
            run(action, "ffffffffff")


def test_a_check_fails_when_a_file_is_broken(talk: str, tmp_path: Path) -> None:
    assert "All sessions can be read (1)." in run("check")
    assert json.loads(run("check", "--json")) == {"checked": 1, "problems": []}
    (tmp_path / "chat_sessions" / "0000000000.json").touch()
    output = StringIO()
    with pytest.raises(CommandError, match="1 of 2"):
        call_command("sessions", "check", "--json", stdout=output)
    assert json.loads(output.getvalue())["problems"] == [
        {"file": "0000000000.json", "reason": "empty"}
    ]


def test_a_list_says_when_it_is_not_complete(
    manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        manager, "list", lambda **_: SessionPage(sessions=(), total=0, complete=False)
    )
    errors = StringIO()
    call_command("sessions", "list", stdout=StringIO(), stderr=errors)
    assert "not all" in errors.getvalue()
    assert json.loads(run("list", "--json"))["complete"] is False


def test_an_empty_list_says_how_to_begin(manager: SessionManager) -> None:
    assert run("list") == "No sessions yet: `mochi-server chat` begins one.\n"
    assert run("list", "--search", "Köln") == "No session fits.\n"
