"""Opens turns, or streams of messages that wait for a running turn, for these protocols."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple, TypeVar

from ninja import Header

from chat.errors import NoActiveTurn
from chat.http.event_stream import NO_HEADERS, EventStream, EventStreamBody
from chat.http.projector import Projector
from chat.http.sse import HEARTBEAT
from chat.inbox.queued_stream import QueuedStream
from chat.inbox.service import InboxService, QueuedMessage
from chat.registry import TurnRegistry
from chat.service import ChatRequest, OpenTurn
from chat.stream.numbered_event import NumberedEvent, Push
from dialects_app.shared.fields import refuse
from mochi_project.app import service
from sessions_app.errors import SessionBusy
from sessions_app.inbox import WhenBusy

Answer = TypeVar("Answer")
Values = TypeVar("Values")

MOST_INTERRUPTIONS = 5
INTERRUPTION_SECONDS = 0.05

WHEN_BUSY_HEADER = "X-Mochi-When-Busy"
WhenBusyHeader = Annotated[
    Values | None,
    Header(alias=WHEN_BUSY_HEADER, description="What to do while a turn of the session runs."),
]
"""The header of a protocol that can show these values."""


async def open_or_queue(
    inbox: InboxService,
    request: ChatRequest,
    key: str | None = None,
    *,
    when_busy: WhenBusy | None,
    supported: Collection[WhenBusy],
    field: str,
    **more: Any,
) -> OpenTurn | QueuedMessage:
    """Start a turn, or queue its message if one runs.

    Args:
        inbox: Starts turns and queues messages.
        request: What is asked for.
        key: The ``Idempotency-Key``, if any.
        when_busy: What the client wants then; None leaves it to the setting.
        supported: What the protocol can show besides a refusal.
        field: Where the client said so.
        **more: The other arguments of ``ChatService.open``.

    Raises:
        MochiError: What ``InboxService.open`` raises, and if the protocol can't show that.
    """
    how = when_busy or inbox.when_busy
    if how != "refuse" and how not in supported:
        if when_busy is not None:
            refuse(field, f"{field} is one of refuse, {', '.join(supported)} in this protocol.")
        how = "refuse"
    return await inbox.open(request, key, when_busy=how, **more)


async def interrupting(start: Callable[[], Awaitable[Answer]]) -> Answer:
    """Start a turn, after cancelling the one that runs in its session.

    Raises:
        MochiError: What ``start`` raises; ``SessionBusy`` if the session is busy again and again.
    """
    for _ in range(MOST_INTERRUPTIONS):
        try:
            return await start()
        except SessionBusy as busy:
            with suppress(NoActiveTurn):
                await service(TurnRegistry).cancel(busy.details["session_id"])
        await asyncio.sleep(INTERRUPTION_SECONDS)  # or a dead turn would be tried without a pause
    return await start()


class WaitingTurn(NamedTuple):
    """A message that waits for its turn, and what makes the projector of that.

    Attributes:
        queued: The stream of its turn.
        make: Makes the projector, with the turn's id.
        announcement: What is sent at once.
    """

    queued: QueuedStream
    make: Callable[[str], Projector]
    announcement: bytes = HEARTBEAT

    def stream(self, headers: Mapping[str, str] = NO_HEADERS) -> EventStream:
        """Return a stream that begins at once, and has the turn once it begins."""
        projector = _LateProjector(self)
        body = EventStreamBody(_Announced(self.queued), self.queued.close, projector)
        return EventStream(body, headers=headers)


class _Announced:
    """Receives nothing once, so that something is sent, and then the events of a turn."""

    def __init__(self, queued: QueuedStream) -> None:
        self.turn_id = queued.turn_id
        self._queued = queued
        self._is_first = True

    async def next(self, push: Push | None = None, /) -> Sequence[NumberedEvent] | None:
        if self._is_first:
            self._is_first = False
            return ()
        return await self._queued.next(push)

    def close(self) -> None:
        self._queued.close()


class _LateProjector:
    """Makes the projector with the first events; implements ``Projector``."""

    opening = b""

    def __init__(self, waiting: WaitingTurn) -> None:
        self._waiting = waiting
        self._next = waiting.announcement
        self._made: Projector | None = None

    @property
    def heartbeat(self) -> bytes:
        said, self._next = self._next, HEARTBEAT
        return said

    @property
    def has_ended(self) -> bool:
        return self._made is not None and self._made.has_ended

    def feed(self, events: Sequence[NumberedEvent], /) -> bytes:
        if self._made is None:
            self._made = self._waiting.make(self._waiting.queued.turn_id)
        return self._made.feed(events)
