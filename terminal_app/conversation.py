"""Holds one conversation: runs its turns in this process and shows them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from chat.approvals.service import ConfirmationService
from chat.errors import NoActiveTurn
from chat.inbox.service import InboxService, QueuedMessage
from chat.registry import TurnRegistry
from chat.service import ChatRequest, OpenTurn
from chat.start.turn_request import TurnRequest
from chat.stream.events import Done, Event, ToolConfirmationRequired
from chat.stream.numbered_event import Listener
from chat.turn.turn_ids import last_turn_id
from mochi_project.app import Services
from models_app.catalogue import ModelCatalogue
from models_app.language_model import Think
from sessions_app.attachments.intake import Reference, resolve
from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import MochiError, SessionError, StorageError
from sessions_app.inbox import WhenBusy
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    UserMessage,
    unmark_cancelled,
)
from sessions_app.queueing import next_message
from sessions_app.service import SessionManager
from sessions_app.session import Session
from sessions_app.settings import SessionsSettings
from sessions_app.variants import answer_start
from terminal_app.approvals import Approvals, Questions
from terminal_app.attaching import kept_file
from terminal_app.console import Console
from terminal_app.interrupt import Interrupt
from terminal_app.transcript import Show

PAUSE_SECONDS = 0.1  # between two looks at whether a turn answers what waits


class Conversation:
    """A conversation, which is a session as soon as something is said.

    Attributes:
        session_id: The session; None before the first message.
        model: The model of a session that is not made yet.
        think: Whether the model reasons first; None leaves it to the model.
        tools: The tools of a new session, or of the turns of one that is there.
        attachments: The images and files that go with the next message.
        unanswered: The calls of the last turn that wait for an approval nobody could give.
        when_busy: What becomes of a message while another turn runs (docs/decisions/0184).
        is_answering: Whether a turn is shown, which messages can wait for.
        goes_on: Whether another turn may follow, as a message waits.
    """

    def __init__(
        self,
        services: Services,
        console: Console,
        *,
        show: Show,
        approvals: Approvals,
        interrupt: Interrupt,
        session_id: str | None = None,
        model: str | None = None,
        think: Think | None = None,
        tools: Sequence[str] | None = None,
    ) -> None:
        self._attachment_service = services.get(AttachmentService)
        self._confirmations = services.get(ConfirmationService)
        self._inbox = services.get(InboxService)
        self._settings = services.get(SessionsSettings)
        self._models = services.get(ModelCatalogue)
        self._sessions = services.get(SessionManager)
        self._turns = services.get(TurnRegistry)
        self._console = console
        self._show = show
        self._approvals = approvals
        self._interrupt = interrupt
        self.session_id = session_id
        self.model = model
        self.think = think
        self.tools = tools
        self.attachments: Sequence[Attachment] = ()
        self.unanswered: Sequence[ToolConfirmationRequired] = ()
        self.when_busy: WhenBusy = "refuse"
        self.is_answering = False
        self.goes_on = False
        self._latest: str | None = None
        self._shown_turn = ""
        self._is_ours = session_id is None
        self._unsent: str | None = None

    async def say(self, text: str) -> Event | None:
        """Send a message, show the answer as it comes, and return the last event but ``done``.

        CTRL-C stops the model, or the attempt to ask it. None: the message waits (``follow``).

        Raises:
            MochiError: The turn did not begin.
            CancelledError: It was stopped before it began.
        """
        self._unsent = text
        return await self._run(text)

    async def attach(self, path: Path) -> Attachment:
        """Keep a file, which goes with the next message.

        Raises:
            MochiError: It is too large, of no known type, or can't be kept.
            OSError: It can't be read.
        """
        attachment = await kept_file(self._attachment_service, path)
        if attachment.id not in {each.id for each in self.attachments}:
            self.attachments = (*self.attachments, attachment)
        return attachment

    async def queue(self, text: str) -> None:
        """Have a message wait for the end of the answer that is shown."""
        request = await self._request(text, detached=True)
        self.attachments = ()
        opened = await self._inbox.open(request, when_busy="queue")
        self.goes_on = True
        if isinstance(opened, QueuedMessage):
            self._latest = opened.message_id
        else:  # the answer has just ended, and this one goes on without a listener
            opened.leave()

    async def steer(self) -> None:
        """Have the model read the message that was queued last before its next step."""
        message_id, self._latest = self._latest, None
        if message_id is not None:
            await self._inbox.edit(self._id(), message_id, when_busy="steer")

    async def retry(self) -> Event | None:
        """Answer the last message (again), or go on where an approval is waited for.

        A message that could not be sent is sent.
        """
        return await self._run(self._unsent)

    async def edit(self, text: str) -> Event | None:
        """Replace the last message of the user, and answer the new one."""
        if self._unsent is None and (found := await self.last_question()) is not None:
            index, message = found
            await asyncio.to_thread(
                self._sessions.edit_message,
                self._id(),
                index,
                text,
                message_id=message.message_id,
            )
            return await self._run(None)
        return await self.say(text)

    async def editable(self) -> str | None:
        """Return the text that ``edit`` replaces; None when nothing was said yet."""
        if self._unsent is not None:
            return self._unsent
        found = await self.last_question()
        return None if found is None else found[1].content

    async def last_question(self) -> tuple[int, Message] | None:
        """Return the last message of the user and where it stands."""
        session = await self.session()
        messages = session.messages if session is not None else ()
        start = answer_start(messages)
        return (start - 1, messages[start - 1]) if start else None

    async def session(self) -> Session | None:
        """Return the session; None before the first message."""
        if self.session_id is None:
            return None
        return await asyncio.to_thread(self._sessions.get, self.session_id)

    async def begin_anew(self) -> str | None:
        """Leave the session; the next message makes another one. Return which one was left."""
        left = None if await self.discard_unanswered() else self.session_id
        self.session_id, self._unsent, self._is_ours = None, None, True
        return left

    async def use_model(self, name: str) -> None:
        """Let another model answer from now on.

        Raises:
            ModelNotFound: There is none of that name.
        """
        await self._models.look_up(name)
        if self.session_id is not None:
            await asyncio.to_thread(self._sessions.update, self.session_id, model=name)
        self.model = name

    async def discard_unanswered(self) -> bool:
        """Delete the session if it was made here and no model ever answered; tell whether."""
        if not self._is_ours or self.session_id is None:
            return False
        return await asyncio.to_thread(self._discard_unanswered, self.session_id)

    def _discard_unanswered(self, session_id: str) -> bool:
        with suppress(SessionError, StorageError):  # it stays: nothing is lost
            if not any(map(_says_something, self._sessions.messages(session_id))):
                self._sessions.delete(session_id)
                return True
        return False

    async def is_busy(self) -> bool:
        """Return whether another process runs a turn of the session now."""
        if self.session_id is None:
            return False
        return await self._turns.active(self.session_id) is not None

    async def follow(self) -> Event | None:
        """Show the turn that another process runs, to its end; None if none is there any more.

        CTRL-C stops the turn there. Returns the last event but ``done``.
        """
        with self._interrupt.stops(Stop(self._turns, self._id())):
            listener = await self._turns.attach(self._id(), None)
            return None if listener is None else await self._watch(listener, listener.close)

    async def follow_next(self) -> Event | None:
        """Show the turn after the one that was shown last, as ``follow`` does.

        None: there is none, and no message waits for one.
        """
        self.goes_on = False
        while (session := await self.session()) is not None:
            question = _question_after(session.messages, self._shown_turn)
            if question is not None:
                self._console.info(f"> {question.content}")
                self._shown_turn = question.turn_id or ""
                with self._interrupt.stops(Stop(self._turns, self._id())):
                    listener = await self._turns.listen(self._id(), self._shown_turn)
                    return None if listener is None else await self._watch(listener, listener.close)
            if next_message(session) is None:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        return None

    async def _run(self, message: str | None) -> Event | None:
        """Run a turn and show its events; None if the message waits for another one."""
        if not self._shown_turn and (session := await self.session()) is not None:
            self._shown_turn = last_turn_id(session.messages) or ""
        turn = await self._open(message)
        self.session_id, self._unsent = turn.session_id, None
        if message is not None:
            self.attachments = ()
        if isinstance(turn, QueuedMessage):
            self._console.info("[queued; what came before is answered first]")
            self.goes_on = True
            return None
        with self._interrupt.stops(Stop(self._turns, turn.session_id)):
            last = await self._watch(turn.listener, turn.leave, turn.committed)
        if last is None:
            raise MochiError("The turn ended without an answer.")
        return last

    async def _watch(
        self,
        listener: Listener,
        leave: Callable[[], None],
        committed: Callable[[], Awaitable[None]] | None = None,
    ) -> Event | None:
        """Show a turn's events and ask what it asks; return the last event but ``done``."""
        questions = Questions(self._approvals, self._confirmations, self._id(), self._console)
        last: Event | None = None
        self.is_answering = True
        try:
            if committed is not None:
                await committed()
            while (events := await listener.next()) is not None:
                for numbered in events:
                    # In a thread: a reader that pauses (`| less`) must not stop the turn.
                    await asyncio.to_thread(self._show, listener.turn_id, numbered)
                # After all of them: of two that come at once, one may answer the other.
                for numbered in events:
                    if numbered.name != Done.event:
                        last = numbered.decode()
                        questions.notice(last)
            self._shown_turn, self.goes_on = listener.turn_id, True
        finally:
            self.is_answering = False
            try:
                await questions.aclose()
            finally:
                leave()
        self.unanswered = questions.unanswered
        return last

    async def _request(self, message: str | None, *, detached: bool = False) -> ChatRequest:
        attachments = () if message is None else await self._attached()
        return ChatRequest(
            turn=TurnRequest(
                message=message,
                attachments=attachments,
                think=self.think,
                selected_tools=self.tools,
                approvals="wait" if self._approvals.can_answer else "suspend",
                detached=detached,
            ),
            session_id=self.session_id,
            model=None if self.session_id else self.model,
        )

    async def _open(self, message: str | None) -> OpenTurn | QueuedMessage:
        when_busy = "refuse" if message is None else self.when_busy
        request = await self._request(message)
        opening = asyncio.create_task(self._inbox.open(request, when_busy=when_busy))
        waiting = self._console.saying("[waiting for the model's server; CTRL-C cancels]")
        with self._interrupt.stops(opening.cancel), waiting:
            return await opening

    async def _attached(self) -> tuple[Attachment, ...]:
        """Return what goes with the message, which may have been kept a while ago."""
        return await resolve(
            self._attachment_service,
            [Reference(id=each.id, name=each.name) for each in self.attachments],
            max_count=self._settings.max_attachments,
        )

    def _id(self) -> str:
        if self.session_id is None:
            raise MochiError("There are no messages yet.")
        return self.session_id


class Stop:
    """Cancels the session's turn when it is called."""

    def __init__(self, turns: TurnRegistry, session_id: str) -> None:
        self._turns = turns
        self._session_id = session_id
        self._stopping: asyncio.Task[None] | None = None

    def __call__(self) -> None:
        """Begin to cancel it; the stream of the turn tells of the end."""
        if self._stopping is None or self._stopping.done():
            self._stopping = asyncio.create_task(self._cancel())

    async def _cancel(self) -> None:
        with suppress(NoActiveTurn):  # it ended by itself just now
            await self._turns.cancel(self._session_id)


def _question_after(messages: Sequence[Message], turn_id: str) -> UserMessage | None:
    """Return what the turn after another one answers."""
    found: UserMessage | None = None
    for message in reversed(messages):
        if message.turn_id == turn_id:
            return found
        if isinstance(message, UserMessage):
            found = message
    return None


def _says_something(message: object) -> bool:
    if not isinstance(message, AssistantMessage):
        return False
    return bool(unmark_cancelled(message.content) or message.thinking or message.tool_calls)
