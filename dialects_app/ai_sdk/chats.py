"""Starts, continues, follows and stops the turns of chats of the AI SDK.

The session is authoritative: only the client's last message is used, or the approvals in it.
Earlier messages are only compared with the session, so that a forged history can't add messages,
tool results or approvals to a conversation.
"""

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from msgspec.structs import replace

from chat.approvals.confirmation import Decision
from chat.creation import SessionFactory
from chat.errors import HistoryChanged, NoActiveTurn
from chat.http.event_stream import HEADERS, EventStream
from chat.inbox.service import InboxService, QueuedMessage
from chat.service import ChatRequest, ChatService, OpenTurn, SessionSpace
from chat.start.turn_request import TurnRequest
from chat.stream.numbered_event import Listener
from dialects_app.ai_sdk.body import (
    UIChatIn,
    UserInput,
    attachment_in,
    decisions_in,
    greeting_in,
    said_in,
)
from dialects_app.ai_sdk.chunks import DONE, STREAM_VERSION, chunk
from dialects_app.ai_sdk.places import place_of
from dialects_app.ai_sdk.projector import UIMessageProjector
from dialects_app.ai_sdk.ui_messages import UIMessagesOut, ui_messages
from dialects_app.errors import ChatDiffers
from dialects_app.shared.client_sessions import ClientSession, find_session
from dialects_app.shared.shown_calls import questions_of
from dialects_app.shared.streams import (
    follow_turn,
    listen_to_running,
    stream_turn,
    stream_when_taken,
)
from dialects_app.shared.turn_output import without_output
from dialects_app.shared.waiting import open_or_queue
from sessions_app.attachments.intake import Inline, Reference, resolve
from sessions_app.attachments.service import AttachmentService
from sessions_app.calls import open_calls
from sessions_app.edits import Rewind
from sessions_app.errors import SessionExists, SessionNotFound, ValidationFailed
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import Attachment, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, append_messages
from sessions_app.settings import SessionsSettings


class UIChats(msgspec.Struct, frozen=True, kw_only=True):
    """Handles the requests of ``useChat``.

    Attributes:
        chat: Runs turns.
        inbox: Starts turns, or queues messages.
        sessions: The sessions.
        attachments: Stores images and files.
        settings: Those of sessions; a message has only so many files.
        factory: Makes the sessions of new chats.
    """

    chat: ChatService
    inbox: InboxService
    sessions: SessionManager
    attachments: AttachmentService
    settings: SessionsSettings
    factory: SessionFactory

    async def answer(
        self, body: UIChatIn, *, key: str | None = None, client: str | None = None
    ) -> HttpResponseBase:
        """Handle a request: send, edit, regenerate, or decide approvals; return its stream.

        Args:
            body: The request.
            key: Its ``Idempotency-Key``, if any.
            client: The client, if turns are limited per client.

        Raises:
            ChatDiffers: The client's messages differ from the session.
            MochiError: The turn can't start, or an approval can't be decided.
        """
        last = body.last()
        if last.role == "assistant":
            return await self._decide(body, decisions_in(last))
        new_input = await asyncio.to_thread(said_in, last)
        identity = None if key is None else await asyncio.to_thread(body.identity)
        # First: the turn itself has changed the session, by which a request is judged.
        if key is not None and (found := await self.chat.opened_before(key, identity)) is not None:
            return await _stream(found)
        attachments = await self._store_files(new_input)
        while True:
            place = await self._find(body.id)
            try:
                request = await self._request(body, new_input, attachments, place)
            except ChatDiffers:
                before = await self._before_running(place)
                if before is None:
                    raise
                request = await self._request(body, new_input, attachments, before)
            try:
                turn = await open_or_queue(
                    self.inbox,
                    request,
                    key,
                    when_busy=body.when_busy,
                    supported=("queue", "steer", "interrupt"),
                    field="when_busy",
                    client=client,
                    identity=identity,
                )
            except (SessionExists, HistoryChanged):  # by another request, meanwhile
                continue
            if isinstance(turn, QueuedMessage):
                return await self._stream_when_taken(turn)
            return await _stream(turn)

    async def _stream_when_taken(self, queued: QueuedMessage) -> HttpResponseBase:
        """Return the stream of the turn that takes a message.

        One that steers has no own: the stream of the running turn shows it.
        """
        told = msgspec.to_builtins(queued)
        if queued.when_busy == "steer":
            said = chunk("data-steered", data=told, transient=True)
            told_all = f"{said}{chunk('finish')}{DONE}"
            return HttpResponse(told_all, headers={**HEADERS, **STREAM_VERSION})
        session_id = queued.session_id
        return stream_when_taken(
            await self.inbox.listen(session_id, queued.message_id),
            partial(UIMessageProjector, session_id),
            STREAM_VERSION,
            first=chunk("data-queued", data=told, transient=True).encode(),
        )

    async def stream(self, chat_id: str) -> EventStream | None:
        """Listen to the running turn of a chat from its first event; None if none is running."""
        session_id = (await self._find(chat_id)).session_id
        space = await self.chat.space_with(session_id)
        with suppress(SessionNotFound):
            answered = await space.confirmations.answered(session_id)
            decided = {each.confirmation_id for each in answered}
            listener = await listen_to_running(space, session_id)
            if listener is not None:
                projector = UIMessageProjector(session_id, listener.turn_id, decided=decided)
                return follow_turn(listener, projector, STREAM_VERSION)
        return None

    async def stop(self, chat_id: str) -> None:
        """Stop the running turn of a chat, if any."""
        session_id = (await self._find(chat_id)).session_id
        space = await self.chat.space_with(session_id)
        with suppress(NoActiveTurn, SessionNotFound):
            await space.turns.cancel(session_id)

    async def messages(self, chat_id: str) -> UIMessagesOut:
        """Return the messages of a chat; none for a new one."""
        session = (await self._find(chat_id)).session
        if session is None:
            return UIMessagesOut(id=chat_id, messages=())
        space = await self.chat.space_with(session.session_id)
        questions = questions_of(await space.confirmations.pending(session.session_id))
        shown = await asyncio.to_thread(
            ui_messages, session.session_id, session.messages, questions
        )
        return UIMessagesOut(id=chat_id, messages=shown)

    # What is said

    async def _find(self, chat_id: str) -> ClientSession:
        return await asyncio.to_thread(find_session, self.sessions, chat_id, field="id")

    async def _before_running(self, place: ClientSession) -> ClientSession | None:
        """Return the session without the output of its running turn; None if none runs.

        The page has another part of that.
        """
        space, session = await self.chat.space_with(place.session_id), place.session
        active = None if session is None else await space.turns.active(place.session_id)
        if active is None or session is None:
            return None
        before = without_output(session.messages, active.turn_id)
        without = replace(session, messages=tuple(before))
        return ClientSession(place.session_id, without, place.client_id)

    async def _store_files(self, new_input: UserInput) -> tuple[Attachment, ...]:
        given: list[Reference | Inline] = []
        for number, (url, name) in enumerate(new_input.files):
            attachment_id = attachment_in(url)
            if attachment_id is not None:
                given.append(Reference(id=attachment_id, name=name))
            elif url[:5].lower() == "data:":
                given.append(Inline(data=url, name=name))
            else:
                raise ValidationFailed(
                    "A file is a data URL, or the address of an attachment that was uploaded here.",
                    field=f"files.{number}.url",
                )
        if not given:
            return ()
        return await resolve(
            self.attachments, given, max_count=self.settings.max_attachments, field="files"
        )

    async def _request(
        self,
        body: UIChatIn,
        new_input: UserInput,
        attachments: tuple[Attachment, ...],
        place: ClientSession,
    ) -> ChatRequest:
        session = place.session
        expects = None if session is None else session.last_message_id
        turn = TurnRequest(detached=True, think=body.think, expects=expects, dialect="ai_sdk")
        said_now = new_input.message(body.id, now=utc_now(), attachments=attachments)
        if session is None:
            new = await self._new(body, place)
            if greeting := greeting_in((body.messages or ())[:-1]):
                new = append_messages(new, *greeting, now=new.metadata.created_at)
            return ChatRequest(turn=_saying(turn, said_now), session_id=new.session_id, new=new)
        if body.model is not None and body.model != session.metadata.model:
            turn = replace(turn, settings={"model": body.model})
        found = await place_of(body, new_input, attachments, session)
        if isinstance(found, Rewind):
            turn = replace(turn, rewind=found)
        elif found == "new":
            turn = _saying(turn, said_now)
        return ChatRequest(turn=turn, session_id=session.session_id)

    async def _new(self, body: UIChatIn, place: ClientSession) -> Session:
        described = body.new_session()
        await self.factory.check(described)
        session = await self.factory.make(described, place.session_id)
        return replace(session, metadata=replace(session.metadata, client_id=place.client_id))

    # What is decided

    async def _decide(self, body: UIChatIn, decisions: Mapping[str, bool]) -> EventStream:
        if not decisions:
            raise ValidationFailed(
                "The last message has neither text of a user nor an approval.", field="messages"
            )
        session_id = (await self._find(body.id)).session_id
        space = await self.chat.space_with(session_id)
        confirmations = space.confirmations
        message_id = body.message_id or body.last().id
        # Before the answers are given: the turn may be over soon after.
        listener = await _asking(space, session_id, decisions.keys())
        if listener is None:
            return await self._resume(session_id, message_id, decisions)
        try:
            for decision in _decided(decisions):
                await confirmations.decide(session_id, decision, repeatable=True)
            answered = await confirmations.answered(session_id)
        except BaseException:
            listener.close()
            raise
        projector = UIMessageProjector(
            session_id,
            listener.turn_id,
            message_id=message_id,
            decided={each.confirmation_id for each in answered},
            answered={
                each.confirmation_id
                for each in answered
                if each.turn_id == listener.turn_id and each.confirmation_id in decisions
            },
        )
        return follow_turn(listener, projector, STREAM_VERSION)

    async def _resume(
        self, session_id: str, message_id: str | None, decisions: Mapping[str, bool]
    ) -> EventStream:
        """Resume calls whose turn has ended together with its process."""
        session = await asyncio.to_thread(self.sessions.get, session_id)
        known = {call.id for call in open_calls(session.messages)}
        if not known:
            raise ChatDiffers("These approvals were decided already, and their turn has ended.")
        request = TurnRequest(
            detached=True,
            decisions=_decided(decisions),
            expects=session.last_message_id,
            dialect="ai_sdk",
        )
        turn = await self.chat.open(ChatRequest(turn=request, session_id=session_id))
        projector = UIMessageProjector(session_id, turn.turn_id, message_id=message_id, known=known)
        return await stream_turn(turn, projector, STREAM_VERSION)


def _decided(decisions: Mapping[str, bool]) -> Sequence[Decision]:
    return [Decision(confirmation_id=name, approved=yes) for name, yes in decisions.items()]


async def _asking(
    space: SessionSpace, session_id: str, confirmation_ids: AbstractSet[str]
) -> Listener | None:
    """Listen to the turn that requested the approvals; None if it has ended."""
    active = await space.turns.active(session_id)
    if active is None:
        return None
    questions = [
        *await space.confirmations.pending(session_id),
        *await space.confirmations.answered(session_id),
    ]
    if not any(
        each.turn_id == active.turn_id and each.confirmation_id in confirmation_ids
        for each in questions
    ):
        return None
    return await space.turns.listen(session_id, active.turn_id)


def _saying(turn: TurnRequest, message: UserMessage) -> TurnRequest:
    return replace(turn, messages=(message,))


async def _stream(turn: OpenTurn) -> EventStream:
    projector = UIMessageProjector(turn.session_id, turn.turn_id)
    return await stream_turn(turn, projector, STREAM_VERSION)
