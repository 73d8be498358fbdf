"""Shows turns that were refused before any output as turns that ended so. Pure.

Such a turn has no events: in our own protocol it is an error instead of a stream. OpenAI's
protocols have an ending for what a provider refused, ``content_filter``, with and without a text
before it, and streams of Responses for other failures (docs/decisions/0170), while an error would
be repeated by clients that go by its status.
"""

from collections.abc import Callable, Sequence

from chat.errors import TurnCrashed
from chat.service import OpenTurn
from chat.stream.encoding import encode_event
from chat.stream.events import Done, Event, TurnStarted
from chat.stream.numbered_event import NumberedEvent
from chat.turn.outcome import failed
from dialects_app.shared.ids import ResponseId
from models_app.errors import ContentRefused
from sessions_app.errors import MochiError


def is_refusal(error: MochiError) -> bool:
    """Return whether a provider refused the content of a conversation."""
    return error.code == ContentRefused.code


async def events_at_end(turn: OpenTurn, model: str) -> Sequence[NumberedEvent]:
    """Wait for the end of a turn and return its events, or those that show why it has none.

    Events are read after the end, so that tokens don't wake a task.

    Raises:
        MochiError: The turn ended before its first event, and was not refused by its provider.
    """
    outcome = await turn.finished()
    events: list[NumberedEvent] = []
    while (more := await turn.listener.next()) is not None:
        events += more
    return events or events_of_refused(turn, model, outcome.error or TurnCrashed())


def events_of_refused(
    turn: OpenTurn | ResponseId,
    model: str,
    error: MochiError,
    is_shown: Callable[[MochiError], bool] = is_refusal,
) -> Sequence[NumberedEvent]:
    """Return the events of a turn that has none, had it told of its error in a stream.

    Args:
        turn: The turn, or the ids of one that could not begin.
        model: Its model.
        error: The error that ended it.
        is_shown: Whether the protocol shows this error so; by default a refusal of the content.

    Raises:
        MochiError: The error, if the protocol does not.
    """
    if not is_shown(error):
        raise error
    events: tuple[Event, ...] = (
        TurnStarted(turn_id=turn.turn_id, session_id=turn.session_id, model=model),
        failed(error),
        Done(session_id=turn.session_id),
    )
    return [
        NumberedEvent(number, event.event, encode_event(event))
        for number, event in enumerate(events, 1)
    ]
