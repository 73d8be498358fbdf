"""Opens turns for these protocols, or queues their messages while another turn runs."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Annotated, Any, TypeVar

from ninja import Header

from chat.errors import NoActiveTurn
from chat.inbox.service import InboxService, QueuedMessage
from chat.registry import TurnRegistry
from chat.service import ChatRequest, OpenTurn
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
