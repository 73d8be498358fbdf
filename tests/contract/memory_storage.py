"""Signals, idempotency keys, records and documents in memory."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from chat.errors import KeyReused
from chat.storage.idempotency_keys import KeyRecord
from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.documents import MAX_DOCUMENT_BYTES


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

    def sweep(self, older_than_seconds: float, known_turns: set[str]) -> int:
        old = [
            key
            for key, record in self.records.items()
            if key not in self.held and record.turn_id not in known_turns
        ]
        for key in old:
            del self.records[key]
        return len(old)


class MemoryRecords:
    def __init__(self) -> None:
        self._records: dict[tuple[str, str, str], tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def sessions(self, unchanged_since: float) -> list[str]:
        changed: dict[str, float] = {}
        for (session, _, _), (_, at) in list(self._records.items()):
            changed[session] = max(changed.get(session, 0), at)
        return [session for session, at in changed.items() if at <= unchanged_since]

    def stamps(self) -> dict[str, object]:
        return {session: object() for session, _, _ in list(self._records)}

    def kinds(self, session_id: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for session, name, kind in list(self._records):
            if session == session_id:
                found.setdefault(name, set()).add(kind)
        return found

    def read(self, session_id: str, name: str, kind: str) -> bytes | None:
        found = self._records.get((session_id, name, kind))
        return found[0] if found is not None else None

    def put(
        self, session_id: str, name: str, kind: str, data: bytes, *, exclusive: bool = False
    ) -> bool:
        with self._lock:
            if exclusive and (session_id, name, kind) in self._records:
                return False
            self._records[session_id, name, kind] = data, time.time()
        return True

    def discard(self, session_id: str) -> None:
        for key in [key for key in self._records if key[0] == session_id]:
            del self._records[key]

    def sweep(self, unchanged_since: float, is_foreign: Callable[[bytes], bool]) -> int:
        kept = {
            key[:2]
            for key, (data, at) in self._records.items()
            if at > unchanged_since or is_foreign(data)
        }
        swept = {key[:2] for key in self._records} - kept
        for key in [key for key in self._records if key[:2] in swept]:
            del self._records[key]
        return len(swept)


class MemoryDocuments:
    def __init__(self, documents: Mapping[str, bytes] = {}) -> None:
        self._documents: dict[str, bytes] = dict(documents)
        self._lock = threading.Lock()

    def list(self) -> Sequence[str]:
        return sorted(self._documents)

    def read(self, name: str) -> bytes:
        if name not in self._documents:
            raise FileNotFoundError(name)
        if len(self._documents[name]) > MAX_DOCUMENT_BYTES:
            raise UnreadableFileError(name, f"larger than {MAX_DOCUMENT_BYTES} bytes")
        return self._documents[name]

    def snapshot(self) -> "MemoryDocuments":
        return MemoryDocuments(self._documents)

    def create(self, name: str, data: bytes) -> None:
        with self._lock:
            if name in self._documents:
                raise FileExistsError(name)
            self._documents[name] = data

    def replace(self, name: str, data: bytes) -> None:
        self.read(name)
        self.put(name, data)

    def put(self, name: str, data: bytes) -> None:
        self._documents[name] = data

    def delete(self, name: str) -> None:
        self.read(name)
        del self._documents[name]
