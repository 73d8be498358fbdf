"""Queues messages for sessions whose turn runs; the one entry for messages of all protocols.

A message is acknowledged once it is in the session's document, and waits there until a turn takes
it (docs/decisions/0176).
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from chat.asking_turns import turn_that_asks
from chat.errors import MessageDeleted
from chat.inbox.queued_stream import QueuedStream
from chat.service import (
    ChatRequest,
    ChatService,
    OpenTurn,
    SessionSpace,
    fingerprint_of_chat,
)
from chat.start.held_keys import KeyOfMessage, freed_on_failure
from chat.start.preparation import require_model
from chat.start.queued_messages import queued_message
from chat.storage.idempotency_keys import HeldKey
from chat.stream.events import MessageQueued
from models_app.names import require_usable
from sessions_app.errors import (
    QueuedMessageNotFound,
    QueuedMessageTaken,
    SessionBusy,
    ValidationFailed,
)
from sessions_app.format.fields import stable_id
from sessions_app.ids_and_clock import utc_now
from sessions_app.inbox import Inbox, InboxMessage, WhenBusy
from sessions_app.messages import Message, UserMessage
from sessions_app.queueing import next_message
from sessions_app.session import Session, with_inbox, with_metadata
from sessions_app.store.repository import Change, Claim


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a message that was queued.

    Attributes:
        session_id: The session.
        message_id: The message, which keeps this id in the session.
        state: ``queued``, or ``taken`` once a turn has it.
        when_busy: How it waits; None once it is taken.
        position: Its place among those that wait, from 1; None once it is taken.
        turn_id: The turn that took it.
    """

    session_id: str
    message_id: str
    state: Literal["queued", "taken"]
    when_busy: str | None = None
    position: int | None = None
    turn_id: str | None = None


class InboxService:
    """Queues messages, shows and changes what waits, and streams what answers it.

    Args:
        chat: Starts turns of sessions that are idle.
        space: The sessions with an inbox.
        when_busy: What to do with a message of a busy session if its request does not say.
    """

    def __init__(
        self, chat: ChatService, space: SessionSpace, when_busy: WhenBusy = "refuse"
    ) -> None:
        self._chat = chat
        self._space = space
        self.when_busy = when_busy

    async def open(
        self,
        request: ChatRequest,
        key: str | None = None,
        *,
        when_busy: WhenBusy | None = None,
        identity: object = None,
        **more: Any,
    ) -> OpenTurn | QueuedMessage:
        """Start a turn, or queue its message if the session is busy.

        A request to go on gets the running turn, if a server asks a person in it.

        Args:
            request: What is asked for.
            key: The ``Idempotency-Key``, which stands for the turn or for the queued message.
            when_busy: What to do with a message if a turn runs; None leaves it to the setting. What
                else a request asks for, such as an edit, can't wait, and is refused.
            identity: What the client sent, as ``ChatService.open`` takes it.
            **more: The other arguments of ``ChatService.open``.

        Raises:
            InboxFull: Too much waits already.
            MessageDeleted: The key stands for a message that was deleted since.
            ValidationFailed: The session is not saved, or has another model.
            MochiError: What ``ChatService.open`` raises.
        """
        try:
            return await self._open(request, key, when_busy, identity, more)
        except SessionBusy:
            asking = await turn_that_asks(self._chat.space_for(request), request)
            if asking is None:
                raise
            return asking
        except KeyOfMessage as queued:
            session_id, message_id = queued.session_id, queued.message_id
            try:
                return await self.state_of(session_id, message_id)
            except QueuedMessageNotFound:  # what a person deleted is not said after all
                raise MessageDeleted(session_id, message_id=message_id) from None

    async def _open(
        self,
        request: ChatRequest,
        key: str | None,
        when_busy: WhenBusy | None,
        identity: object,
        more: dict[str, Any],
    ) -> OpenTurn | QueuedMessage:
        how = when_busy or self.when_busy
        open_turn = partial(self._chat.open, request, key, identity=identity, **more)
        session_id, waits = request.session_id, how != "refuse"
        if session_id is None or request.new is not None or not (waits or key):
            return await open_turn()
        if request.ephemeral and waits and when_busy is not None:
            raise ValidationFailed(
                "A session that is not saved has no inbox: leave when_busy out.", field="when_busy"
            )
        message = None if request.ephemeral else _message_of(request, key, how, identity)
        if message is None:
            return await open_turn()
        session, claim = await self._load_settled(session_id)
        is_idle = session.inbox.is_empty and claim is None
        if (is_idle or not waits) and _find(session, message.message_id) is None:
            try:
                return await open_turn()
            except SessionBusy:  # another request was faster
                if not waits:
                    raise
        if key is None:  # its client may leave: a message that is in the inbox is made known, too
            return await asyncio.shield(self._append(session_id, message, request.model))
        append = partial(self._append_under, session_id, message, request.model)
        return await self._chat.start_under(key, request, identity, append)

    async def _load_settled(self, session_id: str) -> tuple[Session, Claim | None]:
        """Return the session with its claim; that of a dead turn only if the turn goes on."""
        load = partial(self._space.repository.load_claimed, session_id)
        session, claim = await asyncio.to_thread(load)
        if claim is not None and not claim.alive:
            await self._space.remote.settle(session_id)
            session, claim = await asyncio.to_thread(load)
        return session, claim

    async def _append_under(
        self, session_id: str, message: InboxMessage, model: str | None, held: HeldKey
    ) -> QueuedMessage:
        """Queue the message that a key was taken for; one that can't be queued frees the key."""
        async with freed_on_failure(held):
            queued = await self._append(session_id, message, model)
            keep = partial(held.keep, session_id, message_id=message.message_id)
            await asyncio.to_thread(keep)
        await asyncio.to_thread(held.release)
        return queued

    async def _append(
        self, session_id: str, message: InboxMessage, model: str | None
    ) -> QueuedMessage:
        def append(session: Session) -> Session:
            if _find(session, message.message_id) is not None:
                return session
            if model is not None:
                require_model(session, model)
            _require_usable_model(session, message)
            return _with(session, session.inbox.append(message))

        session = await self._change(session_id, append)
        await self._wake(session_id, message.message_id)
        return _state_of(session, message.message_id)

    async def listing(self, session_id: str) -> Inbox:
        """Return what waits in a session.

        Raises:
            SessionNotFound: There is no such session.
        """
        return (await asyncio.to_thread(self._space.repository.load, session_id)).inbox

    async def state_of(self, session_id: str, message_id: str) -> QueuedMessage:
        """Return what became of a message.

        Raises:
            QueuedMessageNotFound: It was deleted, or never queued.
        """
        load = partial(self._space.repository.load_claimed, session_id)
        session, claim = await asyncio.to_thread(load)
        if claim is None and next_message(session) is not None:
            self._space.turns.answer_waiting(session_id)
        return _state_of(session, message_id)

    async def edit(
        self, session_id: str, message_id: str, *, position: int | None = None, **changes: Any
    ) -> QueuedMessage:
        """Change a message that waits: fields of ``InboxMessage``, and its place.

        Raises:
            QueuedMessageTaken: A turn has it.
            QueuedMessageNotFound: It does not wait here.
            InboxFull: The messages are too long together.
        """

        def edit(inbox: Inbox) -> Inbox:
            edited = inbox.edit(message_id, **changes)
            return edited if position is None else edited.move(message_id, position)

        def edit_usable(session: Session) -> Session:
            _require_usable_model(session, session.inbox.find(message_id))
            return _of_waiting(edit, message_id)(session)

        async def change() -> QueuedMessage:
            session = await self._change(session_id, edit_usable)
            if "when_busy" in changes:
                await self._wake(session_id, message_id)
            return _state_of(session, message_id)

        return await asyncio.shield(change())

    async def delete(self, session_id: str, message_id: str | None = None) -> Inbox:
        """Remove a message that waits, or all of them; return what still waits.

        Raises:
            QueuedMessageTaken: A turn has it.
            QueuedMessageNotFound: It does not wait here.
        """
        change: Change = _emptied
        if message_id is not None:
            change = _of_waiting(lambda inbox: inbox.take(message_id), message_id)
        return (await self._change(session_id, change)).inbox

    async def resume(self, session_id: str) -> Inbox:
        """Let a paused inbox be answered again, and return it."""
        resume = lambda session: _with(session, session.inbox.resume())  # noqa: E731
        session = await self._change(session_id, resume)
        await self._wake(session_id)
        return session.inbox

    async def listen(self, session_id: str, message_id: str) -> QueuedStream:
        """Listen to the turn that answers a message; wait for it if need be.

        Raises:
            QueuedMessageNotFound: It was deleted, or never queued.
        """
        await self.state_of(session_id, message_id)
        return QueuedStream(
            session_id,
            message_id,
            turn_of=partial(self._turn_of, session_id, message_id),
            listen=partial(self._space.turns.listen, session_id),
        )

    async def listen_to_next(self, session_id: str) -> QueuedStream | None:
        """Listen to the next turn, which answers a message that waits; None if none does."""
        session = await asyncio.to_thread(self._space.repository.load, session_id)
        message = next_message(session)
        return None if message is None else await self.listen(session_id, message.message_id)

    async def _turn_of(self, session_id: str, message_id: str) -> str | None:
        return (await self.state_of(session_id, message_id)).turn_id

    async def _change(self, session_id: str, change: Change) -> Session:
        return await asyncio.to_thread(self._space.repository.update, session_id, change)

    async def _wake(self, session_id: str, message_id: str | None = None) -> None:
        """Have what waits answered: by the running turn, or by a new one if none runs.

        A message that a turn has taken already does not cancel that turn.
        """
        load, turns = partial(self._space.repository.load_claimed, session_id), self._space.turns
        session, claim = await asyncio.to_thread(load)
        message = None if message_id is None else session.inbox.find(message_id)
        is_running = claim is not None and claim.alive
        if not is_running:
            turns.answer_waiting(session_id)
        if message is None or claim is None:
            return
        interrupts = message.when_busy == "interrupt"
        if is_running and not interrupts and (turn := turns.get(session_id)) is not None:
            position = session.inbox.position_of(message.message_id)
            queued = MessageQueued(
                message_id=message.message_id, when_busy=message.when_busy, position=position
            )
            turn.engine.report(queued)
        if claim.turn_id and (is_running or interrupts):  # a dead one may be gone on with
            await turns.tell(session_id, claim.turn_id, "cancel" if interrupts else "inbox")


def _message_of(
    request: ChatRequest, key: str | None, how: WhenBusy, identity: object
) -> InboxMessage | None:
    """Return the message of a request; None if it has none that can wait."""
    message_id = None
    if key is not None:  # of the same request, also if its process died before it kept the key
        fingerprint = fingerprint_of_chat(request, identity)
        message_id = stable_id("queued", request.session_id, key, fingerprint)
    return queued_message(request.turn, message_id=message_id, when_busy=how, queued_at=utc_now())


def _require_usable_model(session: Session, message: InboxMessage | None) -> None:
    """Check that the key of a request is for the model that will answer a message.

    The turn that takes the message begins with another request, or with none.
    """
    settings = {} if message is None else message.request.get("settings", {})
    require_usable(settings.get("model") or session.metadata.model)


def _find(session: Session, message_id: str) -> InboxMessage | Message | None:
    """Return the message where it waits, or where it is said."""
    if (waiting := session.inbox.find(message_id)) is not None:
        return waiting
    said: Sequence[Message] = session.messages
    return next((each for each in reversed(said) if each.message_id == message_id), None)


def _state_of(session: Session, message_id: str) -> QueuedMessage:
    """Return what became of a message; raises as ``InboxService.state_of``."""
    known, taken = _find(session, message_id), session.inbox.taken
    if isinstance(known, InboxMessage):
        return QueuedMessage(
            session_id=session.session_id,
            message_id=message_id,
            state="queued",
            when_busy=known.when_busy,
            position=session.inbox.position_of(message_id),
        )
    if not isinstance(known, UserMessage):
        raise QueuedMessageNotFound(message_id)
    turn_id = taken.turn_id if taken and taken.message_id == message_id else known.turn_id
    return QueuedMessage(
        session_id=session.session_id, message_id=message_id, state="taken", turn_id=turn_id
    )


def _of_waiting(change: Callable[[Inbox], Inbox], message_id: str) -> Change:
    """Return a change of a session's inbox that needs the message in it."""

    def change_session(session: Session) -> Session:
        if (queued := _state_of(session, message_id)).state == "taken":
            raise QueuedMessageTaken(message_id, queued.turn_id)
        return _with(session, change(session.inbox))

    return change_session


def _with(session: Session, inbox: Inbox) -> Session:
    """Return the session with this inbox, as one that was just changed."""
    return with_metadata(with_inbox(session, inbox), now=utc_now())


def _emptied(session: Session) -> Session:
    """Return the session without the messages that wait."""
    return _with(session, msgspec.structs.replace(session.inbox.resume(), messages=()))
