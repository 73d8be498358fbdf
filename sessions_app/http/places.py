"""Limits how many lists of sessions are made at the same time."""

import asyncio

MOST_LISTS_AT_ONCE = 1
"""The maximum concurrent lists of sessions; others wait. Listing 10,000 sessions holds the GIL for
30 ms, and several threads would pass it to each other and starve the event loop."""


class ListPlaces(asyncio.Semaphore):
    """Has a place for each list of sessions that is being made."""

    def __init__(self) -> None:
        super().__init__(MOST_LISTS_AT_ONCE)
