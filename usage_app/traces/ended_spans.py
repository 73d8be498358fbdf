"""Ends spans in a thread, once a second.

Attributes are only needed when a span is exported. So the event loop starts spans, whose ids are
needed at once, and queues their values and end times. Naming and checking the attributes takes
longer than that, and much longer between the tokens of other turns than in a loop of its own
(docs/decisions/0089).
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from opentelemetry.trace import Span, Status, StatusCode

from usage_app.traces import names
from usage_app.traces.names import Attribute, Naming, Value

WAIT_SECONDS = 1.0
"""The time that spans wait for others that end."""


class _Ending(NamedTuple):
    span: Span
    values: Mapping[Attribute, Value | None]
    error: str | None
    at: int


class EndedSpans:
    """Queues spans that have ended, then sets their attributes and passes them to the exporter.

    Args:
        naming: The names of their attributes.
    """

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._waiting: deque[_Ending] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._working = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of queued spans."""
        return len(self._waiting)

    def add(
        self, span: Span, values: Mapping[Attribute, Value | None], *, error: str | None
    ) -> None:
        """Queue a span that ends now. Called on the event loop.

        Args:
            span: The span.
            values: Its values.
            error: The error code of its operation, if that failed.
        """
        if not span.is_recording():
            return
        self._waiting.append(_Ending(span, values, error, time.time_ns()))
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(WAIT_SECONDS, self._work_in_thread, loop)

    def work_off(self) -> None:
        """End the queued spans. Blocks; call it in any thread but that of the event loop."""
        with self._working:  # who comes second returns when all is done
            while self._waiting:
                span, values, error, at = self._waiting.popleft()
                span.set_attributes(self._naming.attributes({**values, names.ERROR_TYPE: error}))
                if error is not None:
                    span.set_status(Status(StatusCode.ERROR))
                span.end(at)

    def _work_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        loop.run_in_executor(None, self.work_off)
