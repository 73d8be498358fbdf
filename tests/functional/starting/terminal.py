"""A person in front of a terminal in which a command runs."""

import os
import pty
import re
import select
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.functional.processes import start_process

SECONDS = 30
CONTROL_C, CONTROL_D, CONTROL_Z, ENTER = "\x03", "\x04", "\x1a", "\r"
READY = "\x1b[?25l"  # an editor of lines hides the cursor while it draws
TAKEN = "\x1b[?2004l"
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """Runs a command that has a terminal for stdin, stdout and stderr.

    ``seen`` is everything that was shown; ``read_until`` goes on after what it found before.
    """

    def __init__(self, command: Sequence[str], *, cwd: Path, env: dict[str, str], **options: Any):
        self._ours, theirs = pty.openpty()
        self.process = start_process(
            command,
            cwd=cwd,
            # Nothing here tells where the cursor is.
            env={**env, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            # The terminal is the process's own, so that CTRL-C is for it.
            takes_terminal=True,
            **{"stdin": theirs, "stdout": theirs, "stderr": theirs, **options},
        )
        os.close(theirs)
        self.seen = ""
        self._read_to = 0

    def read_until(self, text: str) -> str:
        """Read until this text is shown, and return what was shown before it."""
        while (found := self.seen.find(text, self._read_to)) < 0:
            assert self._read(), f"no {text!r} in {self.seen!r}"
        before = self.seen[self._read_to : found]
        self._read_to = found + len(text)
        return CODES.sub("", before)

    def enter(self, text: str) -> None:
        """Type a line as soon as one can be edited."""
        self.read_until(READY)
        self.type(text + ENTER)
        self.read_until(TAKEN)  # what follows is no echo

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def paste(self, text: str) -> None:
        """Paste a text as terminals do: marked, with Enter for its line breaks."""
        self.type(f"\x1b[200~{text.replace(chr(10), ENTER)}\x1b[201~")

    def wait(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=SECONDS)

    def hang_up(self) -> None:
        """Close the terminal, as a window is closed."""
        os.close(self._ours)
        self._ours = -1

    def close(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self._ours >= 0:
            os.close(self._ours)

    def _read(self) -> bool:
        readable, _, _ = select.select([self._ours], [], [], SECONDS)
        assert readable, f"silence after {self.seen!r}"
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # how Linux says that the other end closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)
