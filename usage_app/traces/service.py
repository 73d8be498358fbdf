"""Provides tracing for one process: spans, their export, and trace headers."""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Tracer

from usage_app.traces.observer import SpanObserver
from usage_app.traces.options import read_options

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

SCOPE = "mochi-server"
EXPORT_SECONDS = 2.0
"""The maximum wait for an export at the end of a process or of a task."""


OpenProvider = Callable[[str], "TracerProvider"]
"""Opens a tracer provider that exports spans, for a version of the server."""


def _open_provider(version: str) -> "TracerProvider":
    from usage_app.traces.exporting import open_provider  # noqa: PLC0415 - imports for long

    return open_provider(version)


class TraceService:
    """Traces one process; opened with the first span at the latest.

    Args:
        version: The server's version.
        open_provider: Opens the tracer provider.

    Attributes:
        observer: Observes turns and model calls.
    """

    def __init__(self, version: str, open_provider: OpenProvider = _open_provider) -> None:
        self._version = version
        self._open_provider = open_provider
        self._opened: tuple[TracerProvider, Tracer] | None = None
        self._opening = threading.Lock()
        self._closed = False
        self.observer = SpanObserver(self.tracer, read_options(os.environ))

    def tracer(self) -> Tracer:
        """Return the tracer."""
        return (self._opened or self.open())[1]

    def open(self) -> "tuple[TracerProvider, Tracer]":
        """Open the exporter. Importing it takes half a second, so call it in a thread.

        Raises:
            ValueError: A variable has an invalid value.
        """
        with self._opening:
            if self._opened is None:
                provider = self._open_provider(self._version)
                self._opened = provider, provider.get_tracer(SCOPE, self._version)
            return self._opened

    async def flush(self) -> None:
        """Export spans that have ended, for at most ``EXPORT_SECONDS``."""
        if self._opened is not None and not self._closed:
            await _bounded(self._opened[0].force_flush)

    async def aclose(self) -> None:
        """Export spans that have ended, like ``flush``, and stop; spans that end later are lost."""
        if self._opened is not None and not self._closed:
            self._closed = True
            await _bounded(self._opened[0].shutdown)


async def _bounded(export: Callable[[], Any]) -> None:
    """Wait a limited time for an export, in a daemon thread."""
    thread = threading.Thread(target=export, name="trace-export", daemon=True)
    thread.start()
    await asyncio.to_thread(thread.join, EXPORT_SECONDS)
