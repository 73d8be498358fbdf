"""Writes to a terminal, or where its output is redirected to, and reads lines from it."""

import asyncio
import os
import shutil
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO

from rich.cells import cell_len

from mochi_project.screen_text import has_colors, printable
from terminal_app.keyboard import keyboard

DIM, RED, PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[0m"
LINE_BYTES = 4096
PATIENCE_SECONDS = 2.0


class Console:
    """The two streams of a command: answers go to one, everything about them to the other.

    Nothing in a text steers the terminal: it may be a model's, a tool's or a stranger's file's.

    Args:
        out: Where answers go.
        err: Where information, questions and errors go.

    Attributes:
        detached: Keeps other readers of the keyboard away while a question is open.
    """

    def __init__(self, out: IO[str], err: IO[str]) -> None:
        self.out = out
        self.err = err
        self.detached: Callable[[], AbstractContextManager[object]] = nullcontext
        self._dims_answers = has_colors(out)
        self._has_colors = has_colors(err)
        self._wrap = _WordWrap(out)

    def info(self, text: str) -> None:
        """Write a line of information, dim on a terminal."""
        self._write(text, DIM)

    def error(self, text: str) -> None:
        """Write a line that says what went wrong, red on a terminal."""
        self._write(text, RED)

    def answer(self, text: str) -> None:
        """Write a piece of an answer, with line breaks between words on a terminal."""
        self.out.write(self._wrap(printable(text)))

    def dim_answer(self, *, begin: bool) -> None:
        """Begin or end a part of an answer that is dim, where the terminal can show that."""
        if self._dims_answers:
            self.out.write(DIM if begin else PLAIN)

    def _write(self, text: str, color: str) -> None:
        text = printable(text)
        line = f"{color}{text}{PLAIN}" if self._has_colors else text
        self.err.write(f"{line}\n")
        self.err.flush()

    @contextmanager
    def saying(self, text: str, *, after: float = PATIENCE_SECONDS) -> Iterator[None]:
        """Write a line of information if what is done meanwhile takes that many seconds."""
        timer = asyncio.get_running_loop().call_later(after, self.info, text)
        try:
            yield
        finally:
            timer.cancel()

    async def ask(self, question: str) -> str | None:
        """Ask, and return the line that is typed; None at the end of the input.

        What was typed before the question does not answer it. Nothing is left behind when the
        caller is cancelled, which a thread that reads would be.
        """
        stdin, line, typed = sys.stdin.fileno(), b"", asyncio.Event()
        loop = asyncio.get_running_loop()
        with self.detached(), keyboard(by_line=True):
            termios.tcflush(stdin, termios.TCIFLUSH)
            self.err.write(printable(question))
            self.err.flush()
            loop.add_reader(stdin, typed.set)
            try:
                await typed.wait()
                line = os.read(stdin, LINE_BYTES)  # a terminal has a whole line, or none
            finally:
                loop.remove_reader(stdin)
                if not line:
                    self.err.write("\n")
        return line.decode(errors="replace") if line else None


class _WordWrap:
    """Breaks lines of a text that comes in pieces, before a terminal does within a word.

    Nothing waits for the end of a word: one that does not fit moves to the next line. Blocks of
    code, and words that are longer than a line, are left to the terminal, so they can be copied.
    """

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._column, self._word, self._begin, self._is_code = 0, "", "", False

    def __call__(self, piece: str) -> str:
        columns = shutil.get_terminal_size((0, 0)).columns if self._out.isatty() else 0
        shown = ""
        for char in piece:
            cells, word = cell_len(char), self._word
            is_over = 0 < columns <= self._column + cells and not self._is_code
            if is_over and not char.isspace() and len(word) < self._column:
                shown += f"\x1b[{len(word)}D\x1b[K\n{word}" if word else "\n"
                self._column = len(word)
            shown += "" if is_over and char == " " else char
            self._column = 0 if char == "\n" else self._column + cells
            # No word is moved whose cells a terminal may count in another way.
            self._word = f"{word}{char}" if cells == 1 and not char.isspace() else ""
            self._is_code ^= char == "\n" and self._begin == "```"
            self._begin = "" if char == "\n" else f"{self._begin}{char}"[:3]
        return shown
