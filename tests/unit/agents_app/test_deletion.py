"""Deleting sessions with what runs on them, and with the sessions of their agents."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from agents_app.deletion import DeletionWithAgents
from agents_app.sessions import forget_agents_of, sessions_by_caller
from chat.errors import NoActiveTurn
from sessions_app.errors import SessionBusy, SessionNotFound
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import AssistantMessage, ToolCall
from sessions_app.service import SessionManager
from sessions_app.session import append_messages
from tests.claims import claim_session
from tools_app.toolset import AGENT_TOOL

UNKNOWN_ID = "ffffffffff"


class Turns:
    """Turns that end when they are cancelled, unless they are stubborn."""

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions
        self.cancelled: list[str] = []
        self.stubborn: set[str] = set()
        self.goes_on: Callable[[str], None] | None = None

    async def cancel(self, session_id: str, turn_id: str | None = None) -> object:
        self.cancelled.append(session_id)
        if session_id in self.stubborn:
            await asyncio.Event().wait()
        claim = await asyncio.to_thread(self._sessions.repository.claim_of, session_id)
        if claim is None:
            raise NoActiveTurn(session_id)
        await asyncio.to_thread(self._sessions.repository.release, session_id, claim.hold)
        if self.goes_on is not None:
            goes_on, self.goes_on = self.goes_on, None
            await asyncio.to_thread(goes_on, session_id)
        return claim.turn_id


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


@pytest.fixture
def turns(sessions: SessionManager) -> Turns:
    return Turns(sessions)


@pytest.fixture
def deletion(sessions: SessionManager, chats: SessionManager, turns: Turns) -> DeletionWithAgents:
    return DeletionWithAgents(sessions, chats, turns.cancel)


def running(sessions: SessionManager) -> str:
    session_id = sessions.create("qwen3:14b").session_id
    claim_session(sessions.repository, session_id, "t1")
    return session_id


def delete(deletion: DeletionWithAgents, session_id: str, **how: bool) -> None:
    asyncio.run(deletion.delete(session_id, **how))


def test_a_session_takes_the_sessions_of_its_agents_with_it_and_no_others(
    sessions: SessionManager, chats: SessionManager, deletion: DeletionWithAgents
) -> None:
    mine, other = (sessions.create("qwen3:14b").session_id for _ in range(2))
    called = [make_chat(chats, {"session_id": mine, "tool_call_id": f"c{n}"}) for n in range(2)]
    kept = {make_chat(chats, {"session_id": other}), make_chat(chats, None), make_chat(chats, mine)}
    assert set(sessions_by_caller(chats)[mine]) == set(called)

    delete(deletion, mine, agents=True)

    assert left(chats) == kept
    assert left(sessions) == {other}


def test_a_session_that_is_busy_or_not_there_keeps_its_agents_sessions(
    sessions: SessionManager, chats: SessionManager, deletion: DeletionWithAgents
) -> None:
    busy = running(sessions)
    for session_id, error in ((busy, SessionBusy), (UNKNOWN_ID, SessionNotFound)):
        chat = make_chat(chats, {"session_id": session_id})
        with pytest.raises(error):
            delete(deletion, session_id, agents=True)
        assert chat in left(chats)


def test_a_session_in_which_an_agent_works_for_another_one_is_kept(
    sessions: SessionManager, chats: SessionManager, deletion: DeletionWithAgents
) -> None:
    mine = sessions.create("qwen3:14b").session_id
    working, _ = (make_chat(chats, {"session_id": mine}) for _ in range(2))
    claim_session(chats.repository, working, "t1")

    delete(deletion, mine, agents=True)

    assert left(chats) == {working}
    assert left(sessions) == set()


def test_a_running_turn_is_only_cancelled_when_that_is_asked_for(
    sessions: SessionManager, turns: Turns, deletion: DeletionWithAgents
) -> None:
    session_id = running(sessions)
    with pytest.raises(SessionBusy):
        delete(deletion, session_id)
    assert turns.cancelled == []

    delete(deletion, session_id, force=True)

    assert turns.cancelled == [session_id]
    assert left(sessions) == set()


def test_a_turn_that_begins_between_end_and_deletion_is_cancelled_too(
    sessions: SessionManager, turns: Turns, deletion: DeletionWithAgents
) -> None:
    session_id = running(sessions)
    turns.goes_on = lambda busy: claim_session(sessions.repository, busy, "t2") and None

    delete(deletion, session_id, force=True)

    assert turns.cancelled == [session_id, session_id]
    assert left(sessions) == set()


def test_a_turn_that_does_not_end_is_waited_for_so_long_and_keeps_its_session(
    sessions: SessionManager, chats: SessionManager, turns: Turns
) -> None:
    session_id = running(sessions)
    turns.stubborn.add(session_id)
    with pytest.raises(SessionBusy):
        delete(
            DeletionWithAgents(sessions, chats, turns.cancel, seconds=0.05), session_id, force=True
        )
    assert left(sessions) == {session_id}


def test_of_many_sessions_each_has_an_outcome_and_none_keeps_another(
    sessions: SessionManager, chats: SessionManager, deletion: DeletionWithAgents, tmp_path: Path
) -> None:
    free, called = (sessions.create("qwen3:14b").session_id for _ in range(2))
    busy = running(sessions)
    chat = make_chat(chats, {"session_id": called})
    (tmp_path / "chat_sessions/0123456789.json").mkdir()
    named = [free, busy, UNKNOWN_ID, "../passwd", "0123456789", called, free]

    first = asyncio.run(deletion.delete_many(named, agents=True))
    again = asyncio.run(deletion.delete_many(named))

    said = {each.session_id: each.outcome for each in first}
    assert said == {
        free: "deleted",
        busy: "busy",
        UNKNOWN_ID: "not_found",
        "../passwd": "not_found",
        "0123456789": "failed",
        called: "deleted",
    }
    assert [each.outcome for each in again] == [
        *("not_found", "busy", "not_found", "not_found", "failed", "not_found")
    ]
    assert chat not in left(chats)


def test_many_sessions_are_deleted_with_their_turns_when_asked(
    sessions: SessionManager, turns: Turns, deletion: DeletionWithAgents
) -> None:
    busy = [running(sessions) for _ in range(12)]
    removed = asyncio.run(deletion.delete_many(busy, force=True))
    assert [each.session_id for each in removed] == busy
    assert {each.outcome for each in removed} == {"deleted"}
    assert sorted(turns.cancelled) == sorted(busy)
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
