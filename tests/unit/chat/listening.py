"""Reads a turn's stream to its end."""

from chat.stream.numbered_event import Listener, NumberedEvent


async def read_all(listener: Listener) -> list[NumberedEvent]:
    received: list[NumberedEvent] = []
    while (events := await listener.next()) is not None:
        received += events
    listener.close()
    return received


def names(events: list[NumberedEvent]) -> list[str]:
    return [event.name for event in events]
