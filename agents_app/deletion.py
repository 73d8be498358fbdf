"""Deletes sessions, with their running turns and with those of the agents that they called."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from agents_app.sessions import delete_chats, sessions_by_caller
from chat.errors import NoActiveTurn
from sessions_app.deletion import Deletion, DeletionOutcome, SessionDeletion
from sessions_app.errors import MochiError, SessionBusy, SessionNotFound
from sessions_app.service import SessionManager

END_SECONDS = 30.0
"""The longest wait for the end of a turn that was cancelled."""
POLL_SECONDS = 0.05
AT_ONCE = 8
"""Sessions that are deleted at the same time: an object store lets each wait."""


class DeletionWithAgents(SessionDeletion):
    """Deletes sessions, and those of agents that they called.

    Args:
        sessions: People's sessions.
        chats: Agents' sessions.
        cancel: Stops the turn of a session of people, in whichever process it runs, and waits
            until it has ended.
        seconds: How long it waits for the end of a turn that it cancelled.
    """

    def __init__(
        self,
        sessions: SessionManager,
        chats: SessionManager,
        cancel: Callable[[str], Awaitable[object]],
        *,
        seconds: float = END_SECONDS,
    ) -> None:
        self._sessions = sessions
        self._chats = chats
        self._cancel = cancel
        self._seconds = seconds

    async def delete(self, session_id: str, *, force: bool = False, agents: bool = False) -> None:
        """Delete a session permanently: see ``SessionDeletion``."""
        callers = await asyncio.to_thread(sessions_by_caller, self._chats) if agents else {}
        await self._delete(session_id, callers, force=force)

    async def delete_many(
        self, session_ids: Sequence[str], *, force: bool = False, agents: bool = False
    ) -> Sequence[Deletion]:
        """Delete sessions permanently: see ``SessionDeletion``."""
        callers = await asyncio.to_thread(sessions_by_caller, self._chats) if agents else {}
        places = asyncio.Semaphore(AT_ONCE)

        async def delete(session_id: str) -> Deletion:
            async with places:
                return await self._outcome(session_id, callers, force=force)

        different = list(dict.fromkeys(session_ids))
        return await asyncio.gather(*map(delete, different))

    async def _outcome(
        self, session_id: str, callers: Mapping[str, Sequence[str]], *, force: bool
    ) -> Deletion:
        outcome: DeletionOutcome = "failed"
        try:
            await self._delete(session_id, callers, force=force)
        except SessionNotFound:
            return Deletion(session_id=session_id, outcome="not_found")
        except MochiError as error:
            outcome = "busy" if isinstance(error, SessionBusy) else "failed"
            return Deletion(session_id=session_id, outcome=outcome, error=error)
        return Deletion(session_id=session_id, outcome="deleted")

    async def _delete(
        self, session_id: str, callers: Mapping[str, Sequence[str]], *, force: bool
    ) -> None:
        if force:
            await self._delete_with_turn(session_id)
        else:
            await asyncio.to_thread(self._sessions.delete, session_id)
        if called := callers.get(session_id):
            await asyncio.to_thread(delete_chats, called, self._chats)

    async def _delete_with_turn(self, session_id: str) -> None:
        """Delete a session, and cancel turns on it until none is in the way.

        Another turn may begin between the end of one and the deletion.
        """
        deadline = asyncio.get_running_loop().time() + self._seconds
        while True:
            try:
                await asyncio.to_thread(self._sessions.delete, session_id)
            except SessionBusy:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
            else:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    try:
                        await self._cancel(session_id)
                    except NoActiveTurn:  # it has ended by itself, or can't be reached from here
                        await asyncio.sleep(POLL_SECONDS)
