"""Sets how the terminal treats what is typed while no prompt is open."""

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

_INPUT, _LOCAL = 0, 3  # of what tcgetattr returns
_FLAGS = ((_INPUT, termios.ICRNL), (_LOCAL, termios.ECHO | termios.ICANON))


@contextmanager
def silent_keyboard() -> Iterator[None]:
    """Do not show what is typed meanwhile: it would stand within the answer.

    It can be read at once, and pastes are marked. CTRL-C and CTRL-Z work as ever.
    """
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(stdin)

    def suspend() -> None:
        """Give the terminal back as it was, and take it again when the process goes on."""
        now = termios.tcgetattr(stdin)
        termios.tcsetattr(stdin, termios.TCSANOW, before)
        _mark_pastes(on=False)
        loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)
        loop.add_signal_handler(signal.SIGTSTP, suspend)
        _mark_pastes(on=True)
        termios.tcsetattr(stdin, termios.TCSANOW, now)

    with keyboard(by_line=False):
        loop.add_signal_handler(signal.SIGTSTP, suspend)
        _mark_pastes(on=True)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGTSTP)
            _mark_pastes(on=False)


@contextmanager
def keyboard(*, by_line: bool) -> Iterator[None]:
    """Show what is typed meanwhile and take it line by line, or neither."""
    stdin = sys.stdin.fileno()
    before, wanted = termios.tcgetattr(stdin), termios.tcgetattr(stdin)
    for index, flags in _FLAGS:
        wanted[index] = wanted[index] | flags if by_line else wanted[index] & ~flags
    termios.tcsetattr(stdin, termios.TCSANOW, wanted)
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSANOW, before)


def _mark_pastes(*, on: bool) -> None:
    sys.stdout.write("\x1b[?2004h" if on else "\x1b[?2004l")  # xterm's "Bracketed Paste Mode"
    sys.stdout.flush()
