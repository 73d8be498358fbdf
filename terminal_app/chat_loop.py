"""Runs a conversation in the terminal until the user ends it."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar

from chat.stream.events import Cancelled, Event, Failed
from sessions_app.calls import open_calls
from sessions_app.errors import MochiError, SessionBusy, SessionNotFound
from sessions_app.messages import AssistantMessage, UserMessage
from sessions_app.session import Session
from terminal_app.chat_commands import QUEUE, ChatCommands, Quit, is_command
from terminal_app.console import Console
from terminal_app.conversation import Conversation
from terminal_app.interrupt import Interrupt
from terminal_app.keyboard import keyboard
from terminal_app.line_editor import InputCleared, LineEditor

ADVICE = {
    SessionBusy.code: "/follow shows that answer; /retry tries again afterwards.",
    SessionNotFound.code: "It was deleted. /new begins another conversation.",
}
Result = TypeVar("Result")


class ChatLoop:
    """Reads what a person types, and answers it.

    Whatever fails is told, and the conversation goes on.
    """

    def __init__(
        self,
        conversation: Conversation,
        commands: ChatCommands,
        editor: LineEditor,
        console: Console,
        interrupt: Interrupt,
    ) -> None:
        self._conversation = conversation
        self._commands = commands
        self._editor = editor
        self._console = console
        self._interrupt = interrupt
        self._typed: deque[str] = deque()
        self._queueing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Talk until the person ends it.

        Raises:
            MochiError: The session can't be read.
        """
        # Between prompts, too: a terminal that takes lines would join them for the next prompt.
        with keyboard(by_line=False):
            await self._greet()
            await self._talk()
            await self._say_goodbye()

    async def _talk(self) -> None:
        step = self._follow if await self._conversation.is_busy() else self._answer
        while not self._interrupt.wants_end:
            self._interrupt.forget()
            try:
                await step()
            except (EOFError, Quit):
                break
            except InputCleared as cleared:
                if cleared.was_entered:
                    self._console.info("[not sent; the up key brings it back]")
                elif not cleared.text:
                    self._console.info("CTRL-D or /quit ends.")
            except asyncio.CancelledError:
                self._console.info("[stopped]")
            except MochiError as error:
                self._complain(error.message, error.code, can_retry=error.retryable)
                if (advice := ADVICE.get(error.code)) is not None:
                    self._console.info(advice)
            step = self._answer

    async def _follow(self) -> None:
        """Show the answer that another program gets, which was there first."""
        self._console.info("[another program gets this answer; CTRL-C stops it]")
        await self._show(self._conversation.follow())

    async def _answer(self) -> None:
        if self._typed:
            typed = self._typed.popleft()
            self._console.info(f"> {typed}")
        else:
            typed = await self._stoppable(self._editor.read())
        if typed.strip() or self._conversation.attachments:
            await self._show(self._do(typed))

    async def _show(self, work: Coroutine[Any, Any, Event | None]) -> None:
        with self._editor.typing_ahead(self._take):
            last = await self._stoppable(work)
            self._report(last)
            while await self._goes_on() and not self._interrupt.wants_end:
                self._interrupt.forget()
                if (shown := await self._stoppable(self._conversation.follow_next())) is not None:
                    last = shown
                    self._report(last)
        if isinstance(last, (Failed, Cancelled)):
            await self._commands.list_waiting()

    def _take(self, typed: str) -> None:
        """Queue what is entered during an answer; commands, and what follows them, are kept."""
        is_held = bool(self._typed) or not self._conversation.is_answering
        if typed.startswith(QUEUE) or not (is_held or is_command(typed or "-")):
            self._queueing = asyncio.create_task(self._queue(typed.strip(), self._queueing))
        elif typed.strip():
            self._typed.append(typed)

    async def _queue(self, typed: str, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        try:
            if typed.startswith(QUEUE):
                await self._commands.run(typed)
            elif typed:
                await self._conversation.queue(typed)
            else:
                await self._conversation.steer()
        except MochiError as error:
            self._console.info(f"[{error.message}]")
            if typed and not typed.startswith(QUEUE):
                self._typed.append(typed)  # it is sent after the answer

    async def _goes_on(self) -> bool:
        if self._queueing is not None:
            await self._queueing
        return self._conversation.goes_on

    async def _do(self, typed: str) -> Event | None:
        if typed.strip() and is_command(typed):
            return await self._commands.run(typed)
        return await self._conversation.say(typed.strip())

    async def _stoppable(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run something that a signal cancels, unless it stops in a way of its own."""
        task = asyncio.create_task(work)
        with self._interrupt.stops(task.cancel):
            return await task

    def _report(self, last: Event | None) -> None:
        """Say how a turn ended, if one ran, and leave a line free after it."""
        if isinstance(last, Failed):
            self._complain(last.message, last.code, can_retry=True)
        elif isinstance(last, Cancelled):
            self._console.info("[stopped; what there is of the answer is saved]")
        if last is not None:
            self._console.info("")

    def _complain(self, message: str, code: str, *, can_retry: bool) -> None:
        self._console.error(f"{message} ({code})")
        if can_retry:
            self._console.info("/retry tries again.")

    async def _greet(self) -> None:
        session = await self._conversation.session()
        if session is None:
            self._console.info(
                f"{self._conversation.model}, a new conversation; /help for commands"
            )
            return
        self._conversation.model = model = session.metadata.model
        count = len(session.messages)
        messages = f"{count} message{'' if count == 1 else 's'}"
        self._console.info(
            f"{model}, session {session.session_id} with {messages}; /help for commands"
        )
        self._recall(session)
        await self._commands.list_waiting()

    def _recall(self, session: Session) -> None:
        """Show how the conversation ended."""
        last = [m for m in session.messages if isinstance(m, (UserMessage, AssistantMessage))][-2:]
        for message in last:
            mark = "> " if isinstance(message, UserMessage) else ""
            if message.content:
                self._console.info(f"{mark}{message.content}")
            if isinstance(message, UserMessage) and message.attachments:
                names = ", ".join(attachment.name for attachment in message.attachments)
                self._console.info(f"{mark}[{names}]")
        if any(not call.client_side for call in open_calls(session.messages)):
            self._console.info("[a tool call waits for approval; /retry asks again]")

    async def _say_goodbye(self) -> None:
        if await self._conversation.discard_unanswered():
            return
        if self._conversation.session_id is not None:
            self._console.info(f"mochi-server chat {self._conversation.session_id} continues")
