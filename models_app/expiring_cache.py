"""Caches values for a limited time, by keys that clients may choose."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

MAX_ENTRIES = 1000

Value = TypeVar("Value")


class ExpiringCache(Generic[Value]):
    """A cache whose entries expire; beyond a thousand, the one set first is dropped.

    Some servers answer to any name: without a bound, every misspelt one would stay. Reading is
    thread-safe.

    Args:
        seconds: How long an entry is fresh.
        clock: Seconds that never go back.
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._entries: dict[str, tuple[Value, float]] = {}

    def get(self, name: str) -> Value | None:
        """Return the value of a name; None if there is none, or it has expired."""
        entry = self._entries.get(name)
        if entry is None or self._clock() - entry[1] > self._seconds:
            return None
        return entry[0]

    def get_expired(self, name: str) -> Value | None:
        """Return the value of a name, however old it is: for checking whether it still holds."""
        entry = self._entries.get(name)
        return None if entry is None else entry[0]

    def set(self, name: str, value: Value) -> None:
        """Keep a value under a name, fresh from now on."""
        self._entries.pop(name, None)
        self._entries[name] = (value, self._clock())
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]

    def discard(self, name: str) -> None:
        """Drop the value of a name, if there is one."""
        self._entries.pop(name, None)
