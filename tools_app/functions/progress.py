"""Lets a function report its progress while it runs (docs/decisions/0158)."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sessions_app.surrogates import join_surrogates
from tools_app.toolset import OnProgress, ToolProgress, ignore_progress

MAX_MESSAGE_CHARS = 1000
_SECONDS = 0.05  # half of a turn's pause: as long a one would let jitter drop every other report


class _Progress:
    """Reports how far the running tool is, from any thread; elsewhere it does nothing."""

    def __init__(self) -> None:
        self._report: OnProgress = ignore_progress
        self._process = 0
        self._next = 0.0
        self._lock = threading.Lock()

    def __call__(self, message: str | None = None, fraction: float | None = None) -> None:
        """Report what the tool does now, in a few words, and how much is done, from 0 to 1.

        Clients get ten reports a second at most; further ones are dropped.
        """
        if os.getpid() != self._process:  # none runs, or a function has forked
            return
        words = None if message is None else join_surrogates(str(message))[:MAX_MESSAGE_CHARS]
        done = None if fraction is None else min(1.0, max(0.0, fraction))
        with self._lock:
            if self._next <= (now := time.monotonic()):
                self._next = now + _SECONDS
                total = None if done is None else 1.0
                self._report(ToolProgress(progress=done, total=total, message=words))

    @contextmanager
    def reported_to(self, report: OnProgress) -> Iterator[None]:
        """Pass on the progress of the function that is called within, and nothing after it."""
        self._report, self._process, self._next = report, os.getpid(), 0.0
        try:
            yield
        finally:
            with self._lock:
                self._report = ignore_progress


progress = _Progress()
