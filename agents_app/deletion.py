"""Deletes sessions, with their running turns and with those of the agents that they called."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from agents_app.sessions import delete_chats, sessions_by_caller
from chat.errors import NoActiveTurn
from sessions_app.errors import MochiError, SessionBusy, SessionNotFound
from sessions_app.service import SessionManager

END_SECONDS = 30.0
"""The longest wait for the end of a turn that was cancelled."""
POLL_SECONDS = 0.05
AT_ONCE = 8
"""Sessions that are deleted at the same time: an object store lets each wait."""

DeletionOutcome = Literal["deleted", "not_found", "busy", "failed"]


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one session that was to be deleted.

    Attributes:
        session_id: The session.
        outcome: ``deleted``; ``not_found``: it was not there; ``busy``: a turn runs on it;
            ``failed``: see ``error``.
        error: Why it is still there.
    """

    session_id: str
    outcome: DeletionOutcome
    error: MochiError | None = None


class SessionDeletion:
    """Deletes sessions.

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
        """Delete a session permanently, even if it can't be read.

        Args:
            session_id: The session.
            force: Whether a turn that runs on it is cancelled first.
            agents: Whether the sessions of agents that it called go with it.

        Raises:
            SessionNotFound: There is no such session.
            SessionBusy: A turn is running; with ``force``, one that does not end in time.
        """
        callers = await asyncio.to_thread(sessions_by_caller, self._chats) if agents else {}
        await self._delete(session_id, callers, force=force)

    async def delete_many(
        self, session_ids: Sequence[str], *, force: bool = False, agents: bool = False
    ) -> Sequence[Deletion]:
        """Delete sessions permanently, and return the outcome of each, in order.

        A failure does not affect other sessions. Duplicate ids are deleted once.
        """
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
