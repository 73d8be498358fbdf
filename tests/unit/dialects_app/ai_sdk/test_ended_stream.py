"""A stream that ends before its turn."""

from collections.abc import Sequence

from chat.stream.numbered_event import NumberedEvent, Push
from dialects_app.ai_sdk.ended_stream import ListenerUntilEnd
from dialects_app.ai_sdk.projector import UIMessageProjector
from tests.unit.dialects_app.ai_sdk.streams import SESSION, WAITING, question
from tests.unit.dialects_app.chat_completions.journals import CONTINUED, STARTED, TURN, numbered

EVENTS = numbered([STARTED, question(), WAITING, CONTINUED])


class Turn:
    """A turn that goes on."""

    turn_id = TURN

    def __init__(self) -> None:
        self.push: Push = lambda _: False
        self.is_left = False

    async def next(self) -> Sequence[NumberedEvent] | None:
        return EVENTS[3:]

    def push_to(self, sink: Push) -> None:
        self.push = sink

    def close(self) -> None:
        self.is_left = True


async def test_events_come_until_the_projector_has_ended() -> None:
    projector = UIMessageProjector(SESSION, TURN)
    listener = ListenerUntilEnd(Turn(), projector)
    assert await listener.next() == EVENTS[3:]
    projector.feed(EVENTS[:3])
    assert await listener.next() is None


def test_the_events_that_end_the_stream_are_refused_so_that_it_ends_at_once() -> None:
    projector, turn, sent = UIMessageProjector(SESSION, TURN), Turn(), []

    def sink(events: Sequence[NumberedEvent]) -> bool:
        sent.append(projector.feed(events))
        return True

    ListenerUntilEnd(turn, projector).push_to(sink)
    assert turn.push(EVENTS[:1]) is True
    assert turn.push(EVENTS[1:3]) is False
    assert turn.push(EVENTS[3:]) is False
    assert len(sent) == 2


def test_it_is_left_as_the_turn_is() -> None:
    turn = Turn()
    ListenerUntilEnd(turn, UIMessageProjector(SESSION, TURN)).close()
    assert turn.is_left
