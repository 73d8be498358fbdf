"""Stores records as objects with their names; other objects are left alone."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from cluster_app.objects.store import (
    ListedObject,
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    OutcomeUnclear,
    StoredObject,
)
from sessions_app.errors import StorageUnavailable
from sessions_app.ids_and_clock import is_session_id
from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.records import RECORD_LIMIT

READERS = 16
TRIES = 20


class ObjectRecords:
    """Stores records in an object store; implements ``Records``.

    Other processes see writes immediately: cached content is used only if the store confirms that
    it is unchanged.

    Args:
        store: The object store.
        names: A regular expression for names, with their group.
        limit: The largest record that is read, in bytes.
    """

    def __init__(
        self, store: ObjectStore, *, names: str = "[^/]+", limit: int = RECORD_LIMIT
    ) -> None:
        self._store = store
        self._limit = limit
        self._is_ours = re.compile(names, re.ASCII).fullmatch
        self._known: dict[str, StoredObject] = {}  # of the last ``read_all``

    def names(self, group: str = "") -> list[str]:
        """Return the names in a group in order, or those without a group."""
        if not group:
            return sorted(item.key for item in self._listed() if "/" not in item.key)
        if not is_session_id(group):
            return []  # it must not be used as a key
        return sorted(item.key for item in self._listed(f"{group}/"))

    def changed_at(self) -> dict[str, float]:
        """Return each name with the time of its last put."""
        return {item.key: item.modified_at for item in self._listed()}

    def read(self, name: str) -> bytes | None:
        """Return a record, or None if it does not exist; raises ``UnreadableFileError``."""
        found = self._get(name)
        return None if found is None else self._checked(name, found.data)

    def read_all(self, matches: Callable[[str], bool]) -> dict[str, bytes | UnreadableFileError]:
        """Return the records without a group whose name matches; fetch those that changed."""
        listed = {
            item.key: item for item in self._listed() if "/" not in item.key and matches(item.key)
        }
        fitting = {name for name, item in listed.items() if item.size <= self._limit}
        found = {
            name: item
            for name, item in self._known.items()
            if name in fitting and listed[name].has_tag(item.tag.etag)
        }
        changed = sorted(fitting - found.keys())
        with ThreadPoolExecutor(READERS) as readers:
            read = zip(changed, readers.map(self._get, changed), strict=True)
            found |= {name: item for name, item in read if item is not None}
        self._known = found
        return {
            name: found[name].data if name in found else self._too_large(name)
            for name in sorted(listed.keys() - (fitting - found.keys()))
        }

    def put(self, name: str, data: bytes, *, exists: bool | None = None) -> bool:
        """Store a record, depending on whether it exists; return whether it was stored."""
        if exists is None:
            put_whole(self._store, name, data)
            return True
        if exists:
            return self._replace(name, data)
        try:
            self._store.put_new(name, data)
        except ObjectExists:
            return False
        return True

    def swap(self, name: str, expected: bytes, data: bytes) -> bool:
        """Replace a record that still is ``expected``; return whether it was."""
        found = self._get(name)
        if found is None or found.data != expected:
            return False
        try:
            self._store.put_if(name, data, found.tag)
        except ObjectChanged:
            return False
        return True

    def delete(self, name: str) -> bool:
        """Delete a record; return whether it existed."""
        if not self._is_ours(name):
            return False
        try:
            self._store.head_bytes(name, 1)
        except ObjectMissing:
            return False
        self._store.delete(name)
        return True

    def discard(self, group: str) -> None:
        """Delete all records of a group."""
        if is_session_id(group):
            for page in self._store.list(f"{group}/"):
                for item in page:
                    self._store.delete(item.key)

    def _replace(self, name: str, data: bytes) -> bool:
        for _ in range(TRIES):
            found = self._get(name)
            if found is None:
                return False
            try:
                self._store.put_if(name, data, found.tag)
            except ObjectChanged:
                continue
            return True
        raise StorageUnavailable(f"{name} is being changed all the time. Try again.")

    def _listed(self, prefix: str = "") -> Iterator[ListedObject]:
        for page in self._store.list(prefix):
            yield from (item for item in page if self._is_ours(item.key))

    def _get(self, name: str) -> StoredObject | None:
        if not self._is_ours(name):
            return None  # it must not be used as a key
        try:
            return self._store.get(name)
        except ObjectMissing:
            return None

    def _checked(self, name: str, data: bytes) -> bytes:
        if len(data) > self._limit:
            raise self._too_large(name)
        return data

    def _too_large(self, name: str) -> UnreadableFileError:
        return UnreadableFileError(name, f"larger than {self._limit} bytes")


def put_whole(store: ObjectStore, key: str, data: bytes | memoryview) -> None:
    """Create or replace an object; retry once if the outcome of the write is unknown."""
    try:
        store.put(key, data)
    except OutcomeUnclear:
        store.put(key, data)
