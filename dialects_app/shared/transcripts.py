"""Saves the conversations of clients that keep their own (docs/decisions/0166).

Such clients send their whole history with each request, and shorten it when it grows. Their turns
run on what they send; here a session gets what is new in each request, and its answer, so that it
only grows. ``MOCHI_CLIENT_SESSIONS`` names the clients.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from chat.service import OpenTurn
from chat.start.turn_request import TurnRequest
from dialects_app.shared.client_sessions import session_named
from sessions_app.errors import MochiError, SessionBusy, SessionExists
from sessions_app.ids_and_clock import utc_now
from sessions_app.labels import titled_by_message
from sessions_app.messages import AssistantMessage, Message, SystemMessage, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, append_messages, make_session, with_metadata

_HEADERS: Mapping[str, Sequence[str]] = {
    # Subagents have the session of their main agent, and a name of their own.
    "claude-code": ("x-claude-code-session-id", "x-claude-code-agent-id"),
    "codex": ("session-id",),
}
"""The headers by which clients name a conversation; the first one is in all its requests."""

_TAGS = ("system-reminder", "environment_context")
"""The tags around what these clients tell a model beside the words of a person."""

MOST_CHARACTERS = 200
BUSY_SECONDS = 1.0
MOST_TRIES = 60
"""The tries at a session while a person goes on with it here."""

logger = logging.getLogger(__name__)


class Transcripts:
    """Saves clients' conversations, one session each.

    Args:
        sessions: The sessions.
        clients: The names of the clients whose conversations are saved.
    """

    def __init__(self, sessions: SessionManager, clients: Collection[str]) -> None:
        self._sessions = sessions
        self._clients = clients
        self._saving: set[asyncio.Task[None]] = set()

    def conversation_of(self, headers: Mapping[str, str]) -> str | None:
        """Return the name of the conversation of a request; None if it is not to be saved."""
        for client, names in _HEADERS.items():
            if client in self._clients and headers.get(names[0]):
                given = [headers[name] for name in names if headers.get(name)]
                return ":".join([client, *(each[:MOST_CHARACTERS] for each in given)])
        return None

    def save(self, conversation: str, model: str, request: TurnRequest, turn: OpenTurn) -> None:
        """Save what is new in a request and its answer, once the turn has ended.

        Args:
            conversation: The name of the conversation, as ``conversation_of`` returns it.
            model: The requested model.
            request: The request, which has the client's whole history; one without tools is the
                client's own, for a title or so, and is not saved.
            turn: The turn; it is not saved if another request has started it.
        """
        if turn.messages is None or not request.client_tools:
            return
        saving = asyncio.create_task(self._save(conversation, model, request.messages, turn))
        self._saving.add(saving)
        saving.add_done_callback(self._saving.discard)

    async def aclose(self) -> None:
        """Wait until everything is saved."""
        await asyncio.gather(*self._saving)

    async def _save(
        self, conversation: str, model: str, history: Sequence[Message], turn: OpenTurn
    ) -> None:
        await turn.finished()
        answer = _after(history, turn.messages() if turn.messages is not None else ())
        if not answer:  # the client sends the same again
            return
        messages = [*_new_of(history), *answer]
        for _ in range(MOST_TRIES):
            try:
                await asyncio.to_thread(self._append, conversation, model, messages)
            except SessionBusy:
                await asyncio.sleep(BUSY_SECONDS)
            except MochiError as error:
                logger.warning("%s can't be saved: %s", conversation, error.message)
                return
            else:
                return
        logger.warning("%s can't be saved: its session is busy", conversation)

    def _append(self, conversation: str, model: str, messages: Sequence[Message]) -> None:
        """Append messages to the session of a conversation, which may have to be made. Blocks."""

        def extended(session: Session) -> Session:
            unsaved = _unsaved(session, messages)
            return with_metadata(
                append_messages(session, *unsaved, now=utc_now()), now=utc_now(), model=model
            )

        place = session_named(self._sessions, conversation, field="session")
        if place.session is None:
            new = make_session(place.session_id, model, now=utc_now(), client_id=place.client_id)
            try:
                self._sessions.keep_new(titled_by_message(extended(new)), any_id=False)
            except SessionExists:  # another request of the conversation has made it meanwhile
                self._sessions.change(place.session_id, extended)
        else:
            self._sessions.change(place.session_id, extended)


def _after(history: Sequence[Message], messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages that a turn has added to the history of its request."""
    known = {message.message_id for message in history}
    return [message for message in messages if message.message_id not in known]


def _new_of(history: Sequence[Message]) -> Iterator[Message]:
    """Yield what follows the last message of the assistant, as a person has said it."""
    answers = [at for at, each in enumerate(history) if isinstance(each, AssistantMessage)]
    for message in history[answers[-1] + 1 if answers else 0 :]:
        if isinstance(message, UserMessage):
            words = _without_tags(message.content)
            if words or message.attachments:
                yield msgspec.structs.replace(message, content=words)
        elif not isinstance(message, SystemMessage):
            yield message


def _unsaved(session: Session, messages: Sequence[Message]) -> Iterator[Message]:
    """Yield messages without those of a person that a client sends again.

    Codex keeps them when it compacts, and drops the answers between them.
    """
    known = {each.content for each in session.messages if isinstance(each, UserMessage)}
    last = max((at for at, each in enumerate(messages) if isinstance(each, UserMessage)), default=0)
    for at, message in enumerate(messages):
        if at >= last or not (isinstance(message, UserMessage) and message.content in known):
            yield message


def _without_tags(text: str) -> str:
    for tag in _TAGS:
        text = "".join(_around(text, f"<{tag}>", f"</{tag}>"))
    return text.strip()


def _around(text: str, begin: str, end: str) -> Iterator[str]:
    """Yield the parts of a text that are not between these marks."""
    at = 0
    while (start := text.find(begin, at)) >= 0 and (stop := text.find(end, start)) >= 0:
        yield text[at:start]
        at = stop + len(end)
    yield text[at:]
