"""Lays an owner's records over those that all owners share (docs/decisions/0212)."""

from collections.abc import Callable, Mapping, Sequence

from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.records import RecordReader, Records


class LaidOverRecords(Records):
    """Reads an owner's record of a name, else the shared one; writes and deletes the owner's only.

    Args:
        own: The owner's records.
        shared: The records that all owners share.
    """

    def __init__(self, own: Records, shared: RecordReader) -> None:
        self._own = own
        self._shared = shared

    def names(self, group: str = "") -> Sequence[str]:
        """Return the names in a group in order, or those without a group."""
        return sorted({*self._own.names(group), *self._shared.names(group)})

    def changed_at(self) -> Mapping[str, float]:
        """Return each name with the time of its last put."""
        return {**self._shared.changed_at(), **self._own.changed_at()}

    def read(self, name: str) -> bytes | None:
        """Return a record, or None if neither exists; raises ``UnreadableFileError``."""
        data = self._own.read(name)
        return self._shared.read(name) if data is None else data

    def read_all(self, matches: Callable[[str], bool]) -> Mapping[str, bytes | UnreadableFileError]:
        """Return the records without a group whose name matches, in order of their names."""
        found = {**self._shared.read_all(matches), **self._own.read_all(matches)}
        return dict(sorted(found.items()))

    def put(self, name: str, data: bytes, *, exists: bool | None = None) -> bool:
        """Store an owner's record; what replaces a shared one is laid over it."""
        if exists and self._own.read(name) is None:
            return self._shared.read(name) is not None and self._own.put(name, data, exists=False)
        return self._own.put(name, data, exists=exists)

    def swap(self, name: str, expected: bytes, data: bytes) -> bool:
        """Replace an owner's record that still is ``expected``; return whether it was."""
        return self._own.swap(name, expected, data)

    def delete(self, name: str) -> bool:
        """Delete an owner's record, so that a shared one is seen again."""
        return self._own.delete(name)

    def discard(self, group: str) -> None:
        """Delete an owner's records of a group."""
        self._own.discard(group)
