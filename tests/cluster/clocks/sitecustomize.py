"""Lets a program sleep whose clock libfaketime has set: its own way of sleeping fails there.

On the path of such a program, Python imports this before anything else.
"""

import threading
import time


def sleep(seconds: float) -> None:
    """Wait for so long, in a way that knows no clock."""
    threading.Event().wait(seconds)


time.sleep = sleep
