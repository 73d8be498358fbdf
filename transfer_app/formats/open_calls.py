"""Finds the tool call that a result of an export answers. Pure."""

from collections.abc import Iterator

from sessions_app.messages import ToolCall

_DEEPEST = 3
"""The maximum leading parts of a call's name by which its results are found, as ``a`` of ``a.b``.
"""


class _Queue:
    """Calls in order, by number, which leave at the front; a deque takes ten times the memory."""

    __slots__ = ("_begin", "_numbers")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._begin = 0

    def append(self, number: int) -> None:
        """Add a call at the end."""
        self._numbers.append(number)

    def first(self, calls: dict[int, ToolCall]) -> int | None:
        """Return the first of the calls that still waits."""
        while self._begin < len(self._numbers):
            if self._numbers[self._begin] in calls:
                return self._numbers[self._begin]
            self._begin += 1
        return None


class OpenCalls:
    """Holds the calls that have no result yet, and finds each without looking through all."""

    def __init__(self) -> None:
        self._calls: dict[int, ToolCall] = {}
        self._all = _Queue()
        self._by_id: dict[str, _Queue] = {}
        self._by_name: dict[str, _Queue] = {}
        self._count = 0

    def add(self, call: ToolCall) -> None:
        """Add a call."""
        number = self._count
        self._count += 1
        self._calls[number] = call
        self._all.append(number)
        self._by_id.setdefault(call.id, _Queue()).append(number)
        for name in _names_of(call):
            self._by_name.setdefault(name, _Queue()).append(number)

    def take(self, name: str, call_id: str) -> ToolCall | None:
        """Remove and return the first call with an id, or, without an id, of a tool.

        Args:
            name: The tool; the called one may be a function of it. Empty for any.
            call_id: The id; empty for any.
        """
        if call_id:
            queue = self._by_id.get(call_id)
        else:
            queue = self._by_name.get(name) if name else self._all
        number = None if queue is None else queue.first(self._calls)
        return None if number is None else self._calls.pop(number)


def _names_of(call: ToolCall) -> Iterator[str]:
    """Yield the names that a result of the call may have: its own, or that of a tool around it."""
    yield call.name
    end = -1
    for _ in range(_DEEPEST):
        end = call.name.find(".", end + 1)
        if end < 0:
            return
        yield call.name[:end]
