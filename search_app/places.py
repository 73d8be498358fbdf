"""Limits how many searches run at the same time."""

import asyncio

MOST_AT_ONCE = 1
"""The maximum concurrent searches of clients; others wait. Two threads that use SQLite pass the GIL
to each other and starve the event loop."""


class SearchPlaces(asyncio.Semaphore):
    """Has a place for each search of a client."""

    def __init__(self) -> None:
        super().__init__(MOST_AT_ONCE)
