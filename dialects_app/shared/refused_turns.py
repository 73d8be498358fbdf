"""Shows turns that a provider refused before any output as turns that ended so. Pure.

Such a turn has no events: in our own protocol it is an error instead of a stream. OpenAI's
protocols have an ending for it, ``content_filter``, with and without a text before it, while an
error would be repeated by clients that go by its status.
"""

from collections.abc import Sequence

from chat.errors import TurnCrashed
from chat.service import OpenTurn
from chat.stream.encoding import encode_event
from chat.stream.events import Done, Event, TurnStarted
from chat.stream.numbered_event import Listener, NumberedEvent
from chat.turn.outcome import failed
from models_app.errors import ContentRefused
from sessions_app.errors import MochiError


async def events_at_end(turn: OpenTurn, model: str) -> Sequence[NumberedEvent]:
    """Wait for the end of a turn, leave it, and return its events.

    They are read after the end, so that tokens don't wake a task. A turn without any has those that
    show why.

    Raises:
        MochiError: The turn ended before its first event, and was not refused by its provider.
    """
    try:
        outcome = await turn.finished()
        events = await rest_of_events(turn.listener)
    finally:
        turn.leave()
    return events or events_of_refused(turn, model, outcome.error or TurnCrashed())


async def rest_of_events(listener: Listener) -> Sequence[NumberedEvent]:
    """Return the events of a listener from now on to its end."""
    events: list[NumberedEvent] = []
    while (more := await listener.next()) is not None:
        events += more
    return events


def events_of_refused(turn: OpenTurn, model: str, error: MochiError) -> Sequence[NumberedEvent]:
    """Return the events of a turn that its provider refused, had it said so in a stream.

    Args:
        turn: The turn, which has no events.
        model: Its model.
        error: The error that ended it.

    Raises:
        MochiError: The error, if it is any other one.
    """
    if error.code != ContentRefused.code:
        raise error
    return events_of_failed(turn.session_id, turn.turn_id, model, error)


def events_of_failed(
    session_id: str, turn_id: str, model: str, error: MochiError
) -> Sequence[NumberedEvent]:
    """Return the events of a turn without any, had it told of its error in a stream."""
    events: tuple[Event, ...] = (
        TurnStarted(turn_id=turn_id, session_id=session_id, model=model),
        failed(error),
        Done(session_id=session_id),
    )
    return [
        NumberedEvent(number, event.event, encode_event(event))
        for number, event in enumerate(events, 1)
    ]
