"""Finds, makes and deletes the sessions of agents."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress

from agents_app.errors import AgentSessionNotFound
from sessions_app.errors import SessionBusy, SessionExists, SessionNotFound
from sessions_app.ids_and_clock import ID_LENGTH, utc_now
from sessions_app.messages import AssistantMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, SessionMetadata
from sessions_app.store.repository import SessionRepository
from tools_app.toolset import AGENT_TOOL, ToolInvocation

AGENT_NAME = "agent_name"
CALLED_BY = "called_by"


def agent_of(metadata: SessionMetadata) -> str | None:
    """Return the agent whose session this is; None for a person's."""
    name = metadata.extra.get(AGENT_NAME)
    return name if isinstance(name, str) else None


def caller_of(metadata: SessionMetadata) -> object:
    """Return the id of the session whose call made this one of an agent."""
    call = metadata.extra.get(CALLED_BY)
    return call.get("session_id") if isinstance(call, Mapping) else None


def sessions_by_caller(chats: SessionManager) -> Mapping[str, Sequence[str]]:
    """Return the ids of the agents' sessions, by the session whose calls made them. Blocks."""
    found: dict[str, list[str]] = {}
    for metadata in chats.list().sessions:
        if isinstance(caller := caller_of(metadata), str):
            found.setdefault(caller, []).append(metadata.session_id)
    return found


def delete_chats(chat_ids: Sequence[str], chats: SessionManager) -> int:
    """Delete agents' sessions; return how many. Blocks.

    One in which an agent works for another session just now is kept.
    """
    deleted = 0
    for chat_id in chat_ids:
        with suppress(SessionBusy, SessionNotFound):
            chats.delete(chat_id)
            deleted += 1
    return deleted


def forget_agents_of(session: Session, chats: SessionManager) -> None:
    """Delete the agents' sessions that the calls of a session made, if it called any. Blocks."""
    answers = (each for each in session.messages if isinstance(each, AssistantMessage))
    if any(call.name == AGENT_TOOL for answer in answers for call in answer.tool_calls):
        delete_chats(sessions_by_caller(chats).get(session.session_id, ()), chats)


class AgentChats(SessionManager):
    """Provides the sessions of agents, apart from those of people."""


class AgentSessions:
    """Finds and makes agents' sessions. All its calls block."""

    def __init__(self, repository: SessionRepository) -> None:
        self._repository = repository

    def load(self, agent_name: str, session_id: str) -> Session:
        """Return a session of this agent.

        Raises:
            AgentSessionNotFound: There is none of this agent; a person's, or another agent's, is
                as good as none.
        """
        try:
            session = self._repository.load(session_id)
        except SessionNotFound:
            raise AgentSessionNotFound(agent_name, session_id) from None
        if agent_of(session.metadata) != agent_name:
            raise AgentSessionNotFound(agent_name, session_id)
        return session

    def of_call(self, agent_name: str, model: str, call: ToolInvocation) -> str:
        """Return the id of the call's own session, made if it is not there.

        The id follows from the call: one that was suspended finds its session again.
        """
        origin = f"{call.session_id}:{call.message_id}:{call.tool_call_id}:{agent_name}"
        session_id = hashlib.sha256(origin.encode()).hexdigest()[:ID_LENGTH]
        now = utc_now()
        metadata = SessionMetadata(
            session_id=session_id,
            model=model,
            created_at=now,
            updated_at=now,
            extra={
                AGENT_NAME: agent_name,
                CALLED_BY: {"session_id": call.session_id, "tool_call_id": call.tool_call_id},
            },
        )
        with suppress(SessionExists):
            self._repository.create(Session(metadata=metadata))
        return session_id
