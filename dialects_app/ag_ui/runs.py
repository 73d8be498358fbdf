"""Starts, follows and stops runs."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from msgspec.structs import replace

from chat.approvals.confirmation import Confirmation, Decision
from chat.errors import HistoryChanged, NoActiveTurn
from chat.http.event_stream import HEADERS, EventStream
from chat.inbox.service import InboxService, QueuedMessage
from chat.service import ChatRequest, ChatService, SessionSpace
from chat.start.turn_request import TurnRequest
from chat.stream.numbered_event import Listener
from dialects_app.ag_ui.body import PropsIn, ResumeIn, RunIn
from dialects_app.ag_ui.calls import ResumedCalls
from dialects_app.ag_ui.followed import FollowedRunProjector
from dialects_app.ag_ui.frames import frame
from dialects_app.ag_ui.interrupts import interrupt_of
from dialects_app.ag_ui.projector import PROTOCOL_VERSION, RunProjector
from dialects_app.ag_ui.request import (
    ClientInput,
    give_up_calls,
    greeting_in,
    place_of_message,
    read_new_input,
    read_props,
    read_turn,
)
from dialects_app.ag_ui.snapshot import before_turn, resumed_by, shown_messages
from dialects_app.errors import ChatDiffers
from dialects_app.shared.attaching import RequestFiles
from dialects_app.shared.client_sessions import ClientSession, find_session
from dialects_app.shared.fields import refuse, renamed_fields
from dialects_app.shared.files import with_files
from dialects_app.shared.streams import (
    follow_turn,
    listen_to_running,
    stream_turn,
    stream_when_taken,
)
from dialects_app.shared.turn_output import without_output
from dialects_app.shared.waiting import open_or_queue
from models_app.default_model import DefaultModel
from sessions_app.calls import open_calls
from sessions_app.errors import SessionExists, SessionNotFound, ValidationFailed
from sessions_app.ids_and_clock import utc_now
from sessions_app.messages import Message, ToolMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, ToolSettings, append_messages, make_session

_THREAD = "threadId"


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """Implements AG-UI's runs: a thread is a session, a run is a turn.

    Attributes:
        chat: Runs the turns.
        inbox: Starts them, or queues messages.
        sessions: The sessions.
        files: Stores images and files.
        default_model: Chooses the model of threads that name none.
    """

    chat: ChatService
    inbox: InboxService
    sessions: SessionManager
    files: RequestFiles
    default_model: DefaultModel

    async def start(self, body: RunIn, *, client: str | None = None) -> EventStream:
        """Start a run, or queue its message, and return its stream.

        Nothing is saved if it is refused.

        Args:
            body: The request.
            client: The client, if turns are limited per client.

        Raises:
            MochiError: The run is refused.
        """
        try:
            return await self._start(body, client)
        except (SessionExists, HistoryChanged, ChatDiffers):
            # Another request of the thread has made it meanwhile, or a turn of it has just ended.
            return await self._start(body, client)

    async def follow(self, thread_id: str) -> HttpResponseBase:
        """Return a stream of a thread's messages, and of its running turn, if any.

        Raises:
            SessionNotFound: There is no such thread.
        """
        session_id = await self._existing(thread_id)
        listener = await listen_to_running(self._space, session_id)
        if listener is not None:
            return await self._followed(thread_id, session_id, listener)
        session = await asyncio.to_thread(self.sessions.get, session_id)
        pending = await self._space.confirmations.pending(session_id)
        frames = await asyncio.to_thread(_at_rest, thread_id, session, pending)
        return HttpResponse(frames, headers=HEADERS)

    async def stop(self, thread_id: str) -> bool:
        """Stop the running turn of a thread; return whether there was one.

        Raises:
            SessionNotFound: There is no such thread.
        """
        session_id = await self._existing(thread_id)
        try:
            await self._space.turns.cancel(session_id)
        except NoActiveTurn:
            return False
        return True

    @property
    def _space(self) -> SessionSpace:
        return self.chat.space_for(ChatRequest(turn=TurnRequest()))

    async def _existing(self, thread_id: str) -> str:
        try:
            place = await asyncio.to_thread(find_session, self.sessions, thread_id, field=_THREAD)
        except ValidationFailed as malformed:
            raise SessionNotFound(thread_id) from malformed
        if place.session is None:
            raise SessionNotFound(thread_id)
        return place.session_id

    async def _followed(self, thread_id: str, session_id: str, listener: Listener) -> EventStream:
        """Return the stream of a running turn with the messages before it."""
        try:
            resumed, before, shown = await asyncio.to_thread(
                self._before, session_id, listener.turn_id
            )
        except BaseException:
            listener.close()
            raise
        projector = FollowedRunProjector(thread_id, before, shown, resumed=resumed)
        return follow_turn(listener, projector)

    def _before(
        self, session_id: str, turn_id: str
    ) -> tuple[ResumedCalls, Sequence[Message], list[dict[str, Any]]]:
        """Return the calls that a turn resumes, and what was before it, in both forms. Blocks."""
        messages = self.sessions.get(session_id).messages
        before = before_turn(messages, turn_id)
        return resumed_by(messages, turn_id), before, shown_messages(before)

    async def _start(self, body: RunIn, client: str | None) -> EventStream:
        place = await asyncio.to_thread(find_session, self.sessions, body.thread_id, field=_THREAD)
        greeting = () if place.session is not None else greeting_in(body.messages)
        history = place.session.messages if place.session is not None else greeting
        seen = history[-1].message_id if history else ""
        props = read_props(body)
        try:
            new_input, turn, resumed = await asyncio.to_thread(_read, body, props, history)
        except ChatDiffers:
            active = place.session and await self._space.turns.active(place.session_id)
            if not active:
                raise
            # The client has another part of the answer that is being given than the session.
            before = without_output(history, active.turn_id)
            seen = before[-1].message_id if before else ""
            new_input, turn, resumed = await asyncio.to_thread(
                _read, body, props, before, runs=True
            )
        turn = await self._turn(body, turn, new_input, history)
        turn = replace(turn, decisions=await self._decisions(body.resume, new_input, place))
        if place.session is None:
            new = await self._new(place, props)
            if greeting:
                new = append_messages(new, *greeting, now=new.metadata.created_at)
            request = ChatRequest(turn=turn, session_id=place.session_id, new=new)
        else:
            changes = _changes(place.session, props)
            turn = replace(turn, settings=changes, expects=seen)
            request = ChatRequest(turn=turn, session_id=place.session_id)
        with renamed_fields(lambda field: place_of_message(field, turn.messages, new_input)):
            opened = await open_or_queue(
                self.inbox,
                request,
                when_busy=props.when_busy,
                supported=("queue", "interrupt"),
                field="forwardedProps.whenBusy",
                client=client,
            )
        resumes = None if new_input.has_user_message else resumed
        projector = RunProjector(body.thread_id, body.run_id, resumed=resumes)
        if isinstance(opened, QueuedMessage):
            queued = await self.inbox.listen(opened.session_id, opened.message_id)
            return stream_when_taken(queued, lambda _: projector)
        return await stream_turn(opened, projector)

    async def _turn(
        self, body: RunIn, turn: TurnRequest, new_input: ClientInput, history: Sequence[Message]
    ) -> TurnRequest:
        """Return the requested turn with its messages, after storing their files."""
        if not new_input.messages:
            if not (new_input.again or body.resume or _awaits_answer(history)):
                refuse("messages", "There is nothing new to answer.")
            return turn
        kept = await self.files.keep(new_input.messages, new_input.files)
        messages: Sequence[Message] = with_files(new_input.messages, kept)
        if not new_input.has_user_message:
            return replace(turn, messages=messages)
        every = await asyncio.to_thread(give_up_calls, messages, history)
        return replace(turn, messages=every)

    async def _new(self, place: ClientSession, props: PropsIn) -> Session:
        model = props.model or await self.default_model.name()
        return make_session(
            place.session_id,
            model,
            now=utc_now(),
            tool_settings=ToolSettings(tools=tuple(props.selected_tools or ())),
            client_id=place.client_id,
        )

    async def _decisions(
        self, answers: Sequence[ResumeIn] | None, new_input: ClientInput, place: ClientSession
    ) -> Sequence[Decision]:
        """Return the decisions about the pending approvals of a thread.

        Raises:
            MochiError: Some are missing, or can't be given now.
        """
        if place.session is None:
            if answers:
                refuse("resume", "The thread is new: it waits for no answer.")
            return ()
        session_id = place.session_id
        pending = await self._space.confirmations.pending(session_id)
        given = {each.interrupt_id: each for each in answers or ()}
        left_out = [each.confirmation_id for each in pending if each.confirmation_id not in given]
        if left_out:
            refuse("resume", f"The thread waits for answers to {', '.join(left_out)}.")
        if not given:
            return ()
        history = place.session.messages
        if not await asyncio.to_thread(open_calls, history):
            refuse("resume", "No call of the thread waits for an answer.")
        if new_input.has_user_message and any(each.status == "resolved" for each in given.values()):
            refuse("resume", "Answers come alone: say more when the calls have run.")
        answered = await self._space.confirmations.answered(session_id)
        asked = {each.confirmation_id: each for each in [*answered, *pending]}
        decisions = [each.answer_to(asked.get(name)) for name, each in given.items()]
        await self._space.confirmations.check(session_id, decisions)
        return decisions


def _read(
    body: RunIn, props: PropsIn, history: Sequence[Message], *, runs: bool = False
) -> tuple[ClientInput, TurnRequest, ResumedCalls]:
    """Return the input, the requested turn, and the calls of earlier turns that it runs."""
    new_input = read_new_input(body.messages, history, runs=runs)
    resumed = resumed_by(history, "", client_calls=_known_calls(body.messages))
    return new_input, read_turn(body, props), resumed


def _awaits_answer(history: Sequence[Message]) -> bool:
    """Return whether the last message of the session has no answer yet."""
    return isinstance(history[-1], ToolMessage) if history else False


def _changes(session: Session, props: PropsIn) -> Mapping[str, Any]:
    """Return the settings changed by a run."""
    if props.model is None or props.model == session.metadata.model:
        return {}
    return {"model": props.model}


def _known_calls(messages: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the ids of the calls that a client has."""
    return frozenset(
        str(call.get("id"))
        for message in messages
        if isinstance(calls := message.get("toolCalls"), list)
        for call in calls
        if isinstance(call, dict)
    )


def _at_rest(thread_id: str, session: Session, pending: Sequence[Confirmation]) -> bytes:
    """Return an idle thread as a run that sends its messages."""
    said_in = [message.turn_id for message in session.messages if message.turn_id is not None]
    run_id = said_in[-1] if said_in else session.session_id
    about = {"sessionId": session.session_id, "model": session.metadata.model}
    outcome: dict[str, Any] = {"type": "success"}
    waiting = [call.id for call in open_calls(session.messages) if call.client_side]
    if pending:
        outcome = {
            "type": "interrupt",
            "interrupts": [
                interrupt_of(each, tool_call_id=None if each.agent_name else each.tool_call_id)
                for each in pending
            ],
        }
    elif waiting:
        outcome["pendingToolCallIds"] = waiting
    frames = (
        frame(
            "RUN_STARTED",
            threadId=thread_id,
            runId=run_id,
            protocolVersion=PROTOCOL_VERSION,
            metadata=about,
        ),
        frame("MESSAGES_SNAPSHOT", messages=shown_messages(session.messages)),
        frame("RUN_FINISHED", threadId=thread_id, runId=run_id, outcome=outcome),
    )
    return "".join(frames).encode("ascii")
