"""Saves the conversations of clients that keep their own (docs/decisions/0166).

Such clients send their whole history with each request, and shorten it when it grows. Their turns
run on what they send; here a session gets what it lacks of each request, and its answer, so that it
only grows. ``MOCHI_CLIENT_SESSIONS`` names the clients.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import count

import msgspec

from chat.service import OpenTurn
from chat.start.turn_request import TurnRequest
from dialects_app.shared.client_sessions import session_id_of, session_named
from dialects_app.shared.transcript_merging import Exchange, merge
from sessions_app.errors import (
    MochiError,
    SessionBusy,
    SessionExists,
    SessionNotFound,
    ValidationFailed,
)
from sessions_app.ids_and_clock import utc_now
from sessions_app.labels import titled_by_message
from sessions_app.messages import Message, SystemMessage, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, make_session, with_messages, with_metadata

_HEADERS: Mapping[str, Sequence[str]] = {
    # Subagents have the session of their main agent, and a name of their own.
    "claude-code": ("x-claude-code-session-id", "x-claude-code-agent-id"),
    "codex": ("session-id",),
}
"""The headers by which clients name a conversation; the first one is in all its requests."""

MOST_CHARACTERS = 200
BUSY_SECONDS = 0.25
LEAST_GRACE_SECONDS = 2.0
"""Time at the end of the server to save what waited for turns that have just ended, too."""

MOST_WAITING = 20
"""Requests that wait while a person goes on with the session here. The history of a later one has
those that are dropped."""

logger = logging.getLogger(__name__)


class _Waiting(msgspec.Struct, frozen=True):
    model: str
    request: TurnRequest
    turn: OpenTurn
    words: Mapping[str, str]


class Transcripts:
    """Saves clients' conversations, one session each, in the order of their requests.

    Args:
        sessions: The sessions.
        clients: The names of the clients whose conversations are saved.
        grace_seconds: How long the end of the server waits for a session in which a turn runs.
    """

    def __init__(
        self, sessions: SessionManager, clients: Collection[str], *, grace_seconds: float
    ) -> None:
        self._sessions = sessions
        self._clients = clients
        self._grace_seconds = grace_seconds
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def conversation_of(self, headers: Mapping[str, str]) -> str | None:
        """Return the name of the conversation of a request; None if it is not to be saved."""
        for client, names in _HEADERS.items():
            if client in self._clients and headers.get(names[0]):
                given = [headers[name] for name in names if headers.get(name)]
                return ":".join([client, *(each[:MOST_CHARACTERS] for each in given)])
        return None

    def save(
        self,
        conversation: str,
        model: str,
        request: TurnRequest,
        turn: OpenTurn,
        *,
        words: Mapping[str, str],
    ) -> None:
        """Save what is new in a request and its answer, once the turn has ended.

        Args:
            conversation: The name of the conversation, as ``conversation_of`` returns it.
            model: The requested model.
            request: The request, which has the client's whole history; one without tools is the
                client's own, for a title or so, and is not saved.
            turn: The turn; it is not saved if another request has started it.
            words: What a person said, without what the client added, by the ids of messages.
        """
        if turn.messages is None or not request.client_tools:
            return
        waiting = self._waiting.get(conversation)
        if waiting is None:
            waiting = self._waiting[conversation] = deque(maxlen=MOST_WAITING)
            task = asyncio.create_task(self._save_all(conversation, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if len(waiting) == MOST_WAITING:
            logger.warning("%s waits: an answer is saved as its client has it", conversation)
        waiting.append(_Waiting(model, request, turn, words))

    async def aclose(self) -> None:
        """Wait until everything is saved, if no turn of another process forbids that."""
        if self._tasks:
            seconds = max(self._grace_seconds, LEAST_GRACE_SECONDS)
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                logger.warning("%d conversations can't be saved: turns run on them", len(late))

    async def _save_all(self, conversation: str, waiting: deque[_Waiting]) -> None:
        try:
            while waiting:
                await self._save(conversation, waiting.popleft())
        finally:
            del self._waiting[conversation]

    async def _save(self, conversation: str, given: _Waiting) -> None:
        try:
            await given.turn.finished()
            exchange = _exchange(given)
            while exchange.answer:  # else the client sends the same again
                try:
                    await asyncio.to_thread(self._append, conversation, given.model, exchange)
                except (SessionBusy, SessionExists, SessionNotFound):
                    await asyncio.sleep(BUSY_SECONDS)
                else:
                    return
        except MochiError as error:
            logger.warning("%s can't be saved: %s", conversation, error.message)
        except Exception:  # the next ones are saved all the same
            logger.exception("%s can't be saved", conversation)

    def _append(self, conversation: str, model: str, exchange: Exchange) -> None:
        """Append to the session of a conversation, which may have to be made. Blocks."""

        def extended(session: Session) -> Session:
            merged = merge(session, exchange, now=utc_now())
            if merged is session:
                return session
            return with_metadata(merged, now=utc_now(), model=model)

        name, following = self._names(conversation)
        place = session_named(self._sessions, name, field="session")
        if place.session is None:
            new = make_session(place.session_id, model, now=utc_now(), client_id=place.client_id)
            self._sessions.keep_new(titled_by_message(extended(new)), any_id=False)
            return
        try:
            self._sessions.change(place.session_id, extended)
        except ValidationFailed:  # it is full: another session goes on with it
            full = place.session.messages
            known = {message.message_id for message in full}
            merged = extended(place.session).messages
            rest = [message for message in merged if message.message_id not in known]
            new = make_session(
                session_id_of(following),
                model,
                now=utc_now(),
                client_id=following,
                forked_from={"session_id": place.session_id, "message_index": len(full) - 1},
            )
            new = with_messages(new, rest or exchange.answer, now=utc_now())
            self._sessions.keep_new(titled_by_message(new), any_id=False)

    def _names(self, conversation: str) -> tuple[str, str]:
        """Return the name of the newest session of a conversation, and of one that follows it."""
        name = conversation
        for number in count(2):
            following = f"{conversation}#{number}"
            try:
                self._sessions.repository.look(session_id_of(following))
            except SessionNotFound:
                break
            name = following
        return name, following


def _exchange(given: _Waiting) -> Exchange:
    """Return the history of a request as a person and the model have said it, and the answer."""
    sent = given.request.messages
    known = {message.message_id for message in sent}
    messages: Sequence[Message] = given.turn.messages() if given.turn.messages is not None else ()
    history: list[Message] = []
    for message in sent:
        if isinstance(message, UserMessage) and message.message_id in given.words:
            said = given.words[message.message_id]
            message = msgspec.structs.replace(message, content=said)  # noqa: PLW2901
            if not said and not message.attachments:
                continue
        if not isinstance(message, SystemMessage):
            history.append(message)
    return Exchange(history, [each for each in messages if each.message_id not in known])
