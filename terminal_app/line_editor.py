"""Reads messages from a person: several lines, history, completion (prompt_toolkit).

Only conversations import this module: a server must not pay for the library.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completion, PathCompleter, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import DummyInput
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import DummyOutput

from sessions_app.store.atomic import PRIVATE_FILE
from terminal_app.console import Console
from terminal_app.keyboard import unprompted_keyboard

FENCE = '"""'
PROMPT, CONTINUATION = "> ", ". "
Words = Callable[[str], Awaitable[Iterable[str]]]


class InputCleared(Exception):
    """CTRL-C was pressed.

    Attributes:
        text: What had been typed.
        was_entered: Whether Enter had been pressed, too.
    """

    def __init__(self, text: str, *, was_entered: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.was_entered = was_entered


class LineEditor:
    """Reads messages. Enter sends; Alt-Enter, CTRL-J and text within fences begin a new line.

    Args:
        history: The file in which messages are remembered.
        commands: Completed when Tab is pressed.
        words_after: Returns the words that may follow a command, which are completed, too.
        console: Where it is said that nothing is remembered.
    """

    def __init__(
        self, history: Path, commands: Sequence[str], words_after: Words, console: Console
    ) -> None:
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=_continuation,
            history=_open_history(history, console),
            completer=_Completer(commands, words_after),
            complete_while_typing=False,
            key_bindings=_bindings(Buffer.validate_and_handle),
            enable_suspend=True,
        )
        self._begun = ""
        console.detached = self._session.input.detach

    async def read(self, default: str = "") -> str:
        """Return the next message, without its fences.

        Args:
            default: A text to edit; without it, what was typed ahead and not entered.

        Raises:
            InputCleared: CTRL-C was pressed.
            EOFError: CTRL-D was pressed, or the terminal is gone.
        """
        default, self._begun = default or self._begun, ""
        text = await self._session.prompt_async(default=default, handle_sigint=False)
        if self._is_taken_back():
            raise InputCleared(text, was_entered=True)
        return _without_fences(text)

    @contextmanager
    def typing_ahead(self, take: Callable[[str], None]) -> Iterator[None]:
        """Edit what is typed or pasted meanwhile, without showing it.

        Args:
            take: Called with each message that is entered; CTRL-D is ``/quit``. What is not entered
                at the end is the beginning of the next message.
        """
        source, unseen = self._session.input, self._unseen_session(take)
        keys = unseen.app.key_processor

        def feed() -> None:
            if unseen.app.context is not None and unseen.app.is_running:
                keys.feed_multiple(get_typeahead(source))
                unseen.app.context.copy().run(keys.process_keys)

        def read() -> None:
            store_typeahead(source, source.read_keys())
            feed()

        self._editing = asyncio.create_task(self._edit(unseen, feed))
        try:
            with unprompted_keyboard(), source.attach(read):
                yield
        finally:
            if unseen.app.is_running:
                self._begun = unseen.default_buffer.text
                unseen.app.exit(result="")
            else:
                self._editing.cancel()

    async def _edit(self, unseen: PromptSession[str], begin: Callable[[], None]) -> None:
        default, self._begun = self._begun, ""
        with create_app_session():  # beside that of the prompt, which `/edit` shows meanwhile
            await unseen.prompt_async(
                default=default, pre_run=begin, handle_sigint=False, set_exception_handler=False
            )

    def _unseen_session(self, take: Callable[[str], None]) -> PromptSession[str]:
        def accept(buffer: Buffer) -> None:
            text = _without_fences(buffer.text)
            buffer.reset(append_to_history=True)
            take(text)

        keys = _bindings(accept)

        @keys.add("c-d", filter=Condition(lambda: not unseen.default_buffer.text))
        def end(_: KeyPressEvent) -> None:
            take("/quit")

        unseen: PromptSession[str] = PromptSession(
            multiline=True,
            history=self._session.history,
            key_bindings=keys,
            input=_FedInput(),
            output=DummyOutput(),
        )
        return unseen

    def _is_taken_back(self) -> bool:
        """Return whether CTRL-C came while Enter was handled: it is no key of the next prompt."""
        typed = get_typeahead(self._session.input)
        stops = [index for index, press in enumerate(typed) if press.key == Keys.ControlC]
        store_typeahead(self._session.input, typed[stops[-1] + 1 :] if stops else typed)
        return bool(stops)


class _FedInput(DummyInput):
    """An input whose keys are fed to the application; without this it would count as closed."""

    @property
    def closed(self) -> bool:
        return False


class _Completer(ThreadedCompleter):
    """Completes commands and their arguments; paths in a thread."""

    def __init__(self, commands: Sequence[str], words_after: Words) -> None:
        super().__init__(PathCompleter(expanduser=True))
        self._commands = commands
        self._words_after = words_after

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        command, blank, typed = document.text_before_cursor.partition(" ")
        if blank and command == "/attach":
            async for path in super().get_completions_async(Document(typed), complete_event):
                yield path
        elif command.startswith("/"):
            begun = typed if blank else command
            for word in await self._words_after(command) if blank else self._commands:
                if word.startswith(begun):
                    yield Completion(word, start_position=-len(begun))


class _SafeHistory(FileHistory):
    """A history whose file may fail: then it is kept in memory only."""

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError:  # a full disk is told by the session's file
            return


def _open_history(path: Path, console: Console) -> History:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(path, flags, PRIVATE_FILE))
    except OSError as error:
        console.info(f"[what you type is not remembered: {error.strerror}]")
        return InMemoryHistory()
    return _SafeHistory(str(path))


def _continuation(_width: int, _line: int, wraps: int) -> str:
    """Mark a line that the person began, not one that the terminal's width makes."""
    return "" if wraps else CONTINUATION


def _bindings(accept: Callable[[Buffer], None]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if _is_unfenced(buffer.text):
            accept(buffer)
        else:
            buffer.newline()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    @keys.add("c-c")
    def clear(event: KeyPressEvent) -> None:
        event.app.exit(exception=InputCleared(event.current_buffer.text))

    return keys


def _is_unfenced(text: str) -> bool:
    """Return whether a text is complete: its first fence, if it begins with one, is closed."""
    text = text.strip()
    return not text.startswith(FENCE) or (text.endswith(FENCE) and len(text) >= 2 * len(FENCE))


def _without_fences(text: str) -> str:
    stripped = text.strip()
    if stripped.startswith(FENCE) and _is_unfenced(stripped):
        return stripped[len(FENCE) : -len(FENCE)].strip("\n")
    return text
