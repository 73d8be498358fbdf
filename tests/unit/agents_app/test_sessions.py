"""Sessions of agents, beside the sessions whose calls made them."""

from pathlib import Path

import msgspec
import pytest

from agents_app.sessions import delete_with_agents, forget_agents_of, sessions_of
from sessions_app.errors import SessionBusy, SessionNotFound
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import AssistantMessage, ToolCall
from sessions_app.service import SessionManager
from sessions_app.session import append_messages
from tests.claims import claim_session
from tools_app.toolset import AGENT_TOOL


@pytest.fixture
def sessions(tmp_path: Path) -> SessionManager:
    return SessionManager(tmp_path / "chat_sessions")


@pytest.fixture
def chats(tmp_path: Path) -> SessionManager:
    return SessionManager(tmp_path / "agent_chats")


def make_chat(chats: SessionManager, called_by: object) -> str:
    made = chats.create("qwen3:14b")
    extra = {"agent_name": "coder", "called_by": called_by}
    chats.repository.update(
        made.session_id,
        lambda found: msgspec.structs.replace(
            found, metadata=msgspec.structs.replace(found.metadata, extra=extra)
        ),
    )
    return made.session_id


def left(chats: SessionManager) -> set[str]:
    return {found.session_id for found in chats.list().sessions}


def test_a_session_takes_the_sessions_of_its_agents_with_it_and_no_others(
    sessions: SessionManager, chats: SessionManager
) -> None:
    mine, other = (sessions.create("qwen3:14b").session_id for _ in range(2))
    called = [make_chat(chats, {"session_id": mine, "tool_call_id": f"c{n}"}) for n in range(2)]
    kept = {make_chat(chats, {"session_id": other}), make_chat(chats, None), make_chat(chats, mine)}
    assert set(sessions_of(mine, chats)) == set(called)

    assert delete_with_agents(mine, sessions, chats) == 2

    assert left(chats) == kept
    assert left(sessions) == {other}


def test_a_session_that_is_busy_or_not_there_keeps_its_agents_sessions(
    sessions: SessionManager, chats: SessionManager
) -> None:
    busy = sessions.create("qwen3:14b").session_id
    claim_session(sessions.repository, busy, "t1")
    for session_id, error in ((busy, SessionBusy), ("ffffffffff", SessionNotFound)):
        chat = make_chat(chats, {"session_id": session_id})
        with pytest.raises(error):
            delete_with_agents(session_id, sessions, chats)
        assert chat in left(chats)


def test_a_session_in_which_an_agent_works_for_another_one_is_kept(
    sessions: SessionManager, chats: SessionManager
) -> None:
    mine = sessions.create("qwen3:14b").session_id
    working, _ = (make_chat(chats, {"session_id": mine}) for _ in range(2))
    claim_session(chats.repository, working, "t1")

    assert delete_with_agents(mine, sessions, chats) == 1

    assert left(chats) == {working}
    assert left(sessions) == set()


def test_agents_are_forgotten_with_a_session_that_called_them(
    sessions: SessionManager, chats: SessionManager
) -> None:
    mine = sessions.create("qwen3:14b")
    make_chat(chats, {"session_id": mine.session_id, "tool_call_id": "c1"})
    kept = make_chat(chats, {"session_id": "a1b2c3d4e5", "tool_call_id": "c1"})
    answer = AssistantMessage(
        content="",
        message_id="1",
        timestamp=utc_now(),
        tool_calls=(ToolCall(id="c1", name=AGENT_TOOL, arguments={}),),
    )

    forget_agents_of(append_messages(mine, answer, now=utc_now()), chats)

    assert left(chats) == {kept}
