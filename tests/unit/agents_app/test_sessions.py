"""Sessions of agents, beside the sessions whose calls made them."""

from pathlib import Path

import msgspec
import pytest

from agents_app.sessions import forget_agents_of
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import AssistantMessage, ToolCall
from sessions_app.service import SessionManager
from sessions_app.session import append_messages
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
