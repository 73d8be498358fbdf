"""Signals, idempotency keys and records in memory."""

import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from chat.errors import KeyReused
from chat.storage.idempotency_keys import KeyRecord


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


class MemoryHeldKey:
    def __init__(self, keys: "MemoryKeys", key: str, record: KeyRecord) -> None:
        self._keys, self._key, self.record = keys, key, record

    def keep(self, session_id: str, turn_id: str) -> None:
        self.record = msgspec.structs.replace(self.record, session_id=session_id, turn_id=turn_id)
        self._keys.records[self._key] = self.record

    def release(self) -> None:
        self._keys.held.discard(self._key)

    def drop(self) -> None:
        self._keys.records.pop(self._key, None)
        self.release()


class MemoryKeys:
    def __init__(self) -> None:
        self.records: dict[str, KeyRecord] = {}
        self.held: set[str] = set()
        self._lock = threading.Lock()

    def take(self, key: str, fingerprint: str) -> MemoryHeldKey | KeyRecord:
        with self._lock:
            found = self.records.get(key)
            if found is None:
                record = self.records[key] = KeyRecord(version=2, fingerprint=fingerprint)
                self.held.add(key)
                return MemoryHeldKey(self, key, record)
        if found.fingerprint != fingerprint:
            raise KeyReused
        return found

    def find(self, key: str) -> KeyRecord | None:
        return self.records.get(key)

    def is_held(self, key: str, record: KeyRecord) -> bool:
        return key in self.held

    def drop(self, key: str, record: KeyRecord) -> None:
        if key not in self.held and self.records.get(key) == record:
            del self.records[key]

    def sweep(self, older_than_seconds: float, known_turns: Callable[[], set[str]]) -> int:
        known = known_turns()
        old = [
            key
            for key, record in self.records.items()
            if key not in self.held and record.turn_id not in known
        ]
        for key in old:
            del self.records[key]
        return len(old)


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

    def delete(self, name: str) -> bool:
        return self._records.pop(name, None) is not None

    def discard(self, group: str) -> None:
        for name in self.names(group):
            self.delete(name)
