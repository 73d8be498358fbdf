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
def unprompted_keyboard() -> Iterator[None]:
    """Have pastes marked meanwhile, and CTRL-Z give the terminal back by lines."""
    loop = asyncio.get_running_loop()

    def suspend() -> None:
        """Give the terminal back, and take it again when the process goes on."""
        with keyboard(by_line=True):
            _mark_pastes(on=False)
            loop.remove_signal_handler(signal.SIGTSTP)
            os.kill(os.getpid(), signal.SIGTSTP)
            loop.add_signal_handler(signal.SIGTSTP, suspend)
            _mark_pastes(on=True)

    loop.add_signal_handler(signal.SIGTSTP, suspend)
    _mark_pastes(on=True)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTSTP)
        _mark_pastes(on=False)


@contextmanager
def keyboard(*, by_line: bool) -> Iterator[None]:
    """Show what is typed meanwhile and take it line by line, or neither.

    CTRL-C and CTRL-Z work as ever.
    """
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
