"""Stores records as objects ``{session_id}/{name}.{kind}``; other objects are left alone.

Implements the port ``sessions_app.store.records.Records``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from cluster_app.objects.documents import put_whole
from cluster_app.objects.store import (
    ListedObject,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
)
from sessions_app.ids_and_clock import SESSION_ID, is_session_id


class ObjectRecords:
    """Stores records in an object store.

    Args:
        store: The object store.
        names: A regular expression for names.
        kinds: The kinds, in the order in which a name's objects are removed; a crash in between
            leaves the last ones.
    """

    def __init__(self, store: ObjectStore, *, names: str, kinds: Sequence[str]) -> None:
        self._store = store
        self._kinds = kinds
        self._name = re.compile(names, re.ASCII)
        self._key = re.compile(rf"({SESSION_ID})/({names})\.({'|'.join(kinds)})", re.ASCII)

    def sessions(self, unchanged_since: float) -> list[str]:
        """Return the sessions with records whose last put was not after that time."""
        newest: dict[str, float] = {}
        for session_id, _, _, item in self._found(""):
            newest[session_id] = max(newest.get(session_id, 0.0), item.modified_at)
        return [session_id for session_id, at in newest.items() if at <= unchanged_since]

    def kinds(self, session_id: str) -> dict[str, set[str]]:
        """Return the session's record names, each with its kinds."""
        found: dict[str, set[str]] = {}
        if is_session_id(session_id):
            for _, name, kind, _ in self._found(f"{session_id}/"):
                found.setdefault(name, set()).add(kind)
        return found

    def read(self, session_id: str, name: str, kind: str) -> bytes | None:
        """Return a record, or None if it does not exist."""
        if not (is_session_id(session_id) and self._name.fullmatch(name)):
            return None  # it must not be used as a key
        try:
            return self._store.get(_key(session_id, name, kind)).data
        except ObjectMissing:
            return None

    def put(
        self, session_id: str, name: str, kind: str, data: bytes, *, exclusive: bool = False
    ) -> bool:
        """Store a record; return False if ``exclusive`` and it exists already."""
        key = _key(session_id, name, kind)
        if not exclusive:
            put_whole(self._store, key, data)
            return True
        try:
            self._store.put_new(key, data)
        except ObjectExists:
            return False
        return True

    def discard(self, session_id: str) -> None:
        """Delete all records of a session."""
        if is_session_id(session_id):
            for page in self._store.list(f"{session_id}/"):
                for item in page:
                    self._store.delete(item.key)

    def sweep(self, unchanged_since: float, is_foreign: Callable[[bytes], bool]) -> int:
        """Delete the records of names unchanged since that time; return the number of names."""
        names: dict[tuple[str, str], dict[str, ListedObject]] = {}
        for session_id, name, kind, item in self._found(""):
            names.setdefault((session_id, name), {})[kind] = item
        return sum(
            self._remove_if_old(items, unchanged_since, is_foreign) for items in names.values()
        )

    def _remove_if_old(
        self,
        items: Mapping[str, ListedObject],
        newest: float,
        is_foreign: Callable[[bytes], bool],
    ) -> bool:
        """Remove a name's records unless one of them is newer or foreign."""
        if max(item.modified_at for item in items.values()) > newest:
            return False
        try:
            if any(is_foreign(self._store.get(item.key).data) for item in items.values()):
                return False
        except ObjectMissing:
            return False  # another process is removing them
        for kind in self._kinds:
            if kind in items:
                self._store.delete(items[kind].key)
        return True

    def _found(self, prefix: str) -> Iterator[tuple[str, str, str, ListedObject]]:
        for page in self._store.list(prefix):
            for item in page:
                if ours := self._key.fullmatch(item.key):
                    yield ours[1], ours[2], ours[3], item


def _key(session_id: str, name: str, kind: str) -> str:
    return f"{session_id}/{name}.{kind}"
