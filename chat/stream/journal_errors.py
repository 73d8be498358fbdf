"""Converts errors of journals to errors of turns, and ends streams at a gap in a journal."""

from collections.abc import Sequence

from chat.errors import JournalUnavailable, TurnInterrupted, TurnLost
from chat.storage.journal import Fenced, JournalTimedOut
from chat.stream.encoding import encode_event
from chat.stream.events import Done, Event, Failed
from chat.stream.numbered_event import NumberedEvent
from sessions_app.errors import MochiError, StorageError
from sessions_app.store.atomic import raise_if_unwritable


def error_of(failure: OSError) -> MochiError:
    """Return the error of a turn whose journal failed."""
    if isinstance(failure, JournalTimedOut):
        return JournalUnavailable()
    if isinstance(failure, Fenced):
        return TurnLost()
    try:
        raise_if_unwritable(failure)
    except StorageError as error:
        return error
    return StorageError("The turn can't be recorded.")


def interrupted_events(session_id: str) -> Sequence[Event]:
    """Return the last events of a stream whose journal lacks what follows."""
    error = TurnInterrupted()
    details = {"retryable": error.retryable}
    return (
        Failed(code=error.code, message=error.message, details=details),
        Done(session_id=session_id),
    )


def broken_off(session_id: str, *, after: int) -> list[NumberedEvent]:
    """Return the last events of a stream whose journal has a gap after an event."""
    return [
        NumberedEvent(number, event.event, encode_event(event))
        for number, event in enumerate(interrupted_events(session_id), after + 1)
    ]
