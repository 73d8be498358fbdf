"""Signals and records in memory."""

import threading
import time
from collections.abc import Callable, Mapping


class MemorySignals:
    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], float] = {}
        self._watchers: list[Callable[[], object]] = []

    def send(self, turn_id: str, kind: str) -> None:
        self._waiting[turn_id, kind] = time.monotonic()
        for changed in list(self._watchers):
            changed()

    def withdraw(self, turn_id: str, kind: str) -> None:
        self._waiting.pop((turn_id, kind), None)

    def is_waiting(self, turn_id: str, kind: str) -> bool:
        return (turn_id, kind) in self._waiting

    def take(self, turn_ids: set[str]) -> list[tuple[str, str]]:
        taken = [signal for signal in self._waiting if signal[0] in turn_ids]
        for signal in taken:
            del self._waiting[signal]
        return taken

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        self._watchers.append(changed)
        changed()
        return lambda: self._watchers.remove(changed)

    def sweep(self, older_than_seconds: float) -> None:
        newest = time.monotonic() - older_than_seconds
        self._waiting = {key: at for key, at in self._waiting.items() if at > newest}


class MemoryRecords:
    def __init__(self, records: Mapping[str, bytes] = {}) -> None:
        self._records = {name: (data, time.time()) for name, data in records.items()}
        self._lock = threading.Lock()

    def names(self, group: str = "") -> list[str]:
        return sorted(name for name in self._records if name.rpartition("/")[0] == group)

    def changed_at(self) -> dict[str, float]:
        return {name: at for name, (_, at) in self._records.items()}

    def stamps(self) -> dict[str, object]:
        return {name.partition("/")[0]: object() for name in list(self._records) if "/" in name}

    def read(self, name: str) -> bytes | None:
        data, _ = self._records.get(name, (None, 0))
        return data

    def read_all(self, matches: Callable[[str], bool]) -> dict[str, bytes]:
        return {name: self._records[name][0] for name in filter(matches, self.names())}

    def put(self, name: str, data: bytes, *, exists: bool | None = None) -> bool:
        with self._lock:
            if exists is not None and exists != (name in self._records):
                return False
            self._records[name] = data, time.time()
        return True

    def swap(self, name: str, expected: bytes, data: bytes | None) -> bool:
        with self._lock:
            if self.read(name) != expected:
                return False
            if data is None:
                return self.delete(name)
            self._records[name] = data, time.time()
        return True

    def delete(self, name: str) -> bool:
        return self._records.pop(name, None) is not None

    def discard(self, group: str) -> None:
        for name in self.names(group):
            self.delete(name)
