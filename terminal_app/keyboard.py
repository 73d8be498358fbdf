"""Sets how the terminal treats what is typed while no prompt is open."""

import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

_INPUT, _LOCAL = 0, 3  # of what tcgetattr returns


@contextmanager
def silent_keyboard() -> Iterator[None]:
    """Do not show what is typed meanwhile: it would stand within the answer.

    It waits for the next prompt, Enter included. CTRL-C works as ever.
    """
    with _flags(on=False):
        yield


@contextmanager
def line_keyboard() -> Iterator[None]:
    """Show what is typed meanwhile, and take it line by line."""
    with _flags(on=True):
        yield


@contextmanager
def _flags(*, on: bool) -> Iterator[None]:
    stdin = sys.stdin.fileno()
    before, wanted = termios.tcgetattr(stdin), termios.tcgetattr(stdin)
    for index, flag in ((_INPUT, termios.ICRNL), (_LOCAL, termios.ECHO)):
        wanted[index] = wanted[index] | flag if on else wanted[index] & ~flag
    termios.tcsetattr(stdin, termios.TCSANOW, wanted)
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSANOW, before)
