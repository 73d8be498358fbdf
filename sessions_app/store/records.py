"""Declares the port of records: small values by name (docs/decisions/0130)."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from mochi_project.principal import DEFAULT_OWNER
from sessions_app.store.atomic import UnreadableFileError

RECORD_LIMIT = 64 << 20
"""The largest record: tool arguments may be as long as the longest line of a model's response."""
DOCUMENT_LIMIT = 1 << 20
"""The largest document, such as a prompt; files written by hand may be longer."""


class RecordReader(Protocol):
    """Reads small values by name. All calls block.

    A name is ``name`` or ``group/name``, where the group is a session's id. Names that the records
    of an adapter can't have are never found.
    """

    def names(self, group: str = "") -> Sequence[str]:
        """Return the names in a group in order, or those without a group."""

    def changed_at(self) -> Mapping[str, float]:
        """Return each name with the time of its last put (Unix time).

        Records that expire by themselves are left out.
        """

    def read(self, name: str) -> bytes | None:
        """Return a record, or None if it does not exist.

        Raises:
            UnreadableFileError: It can't be read, or is too large.
        """

    def read_all(self, matches: Callable[[str], bool]) -> Mapping[str, bytes | UnreadableFileError]:
        """Return the records without a group whose name matches, in order of their names.

        Cheaper than reading them one by one. A record that can't be read is given as the error.
        """


class Records(RecordReader, Protocol):
    """Stores small values by name. All calls block."""

    def put(self, name: str, data: bytes, *, exists: bool | None = None) -> bool:
        """Store a record; it is durable when this returns, if the store is configured so.

        Args:
            name: The name.
            data: The content.
            exists: False only creates the record: of several writers exactly one succeeds. True
                only replaces it.

        Returns:
            Whether it was stored, which depends on ``exists`` only.

        Raises:
            UnreadableFileError: With ``exists=True``, the name is taken by something else.
            StorageError: The record can't be stored.
        """

    def swap(self, name: str, expected: bytes, data: bytes) -> bool:
        """Replace a record that still is ``expected``; return whether it was.

        Raises:
            StorageError: The record can't be stored; in a cluster, it may have been.
        """

    def delete(self, name: str) -> bool:
        """Delete a record; return whether it existed.

        Raises:
            UnreadableFileError: The name is taken by something else.
            StorageError: The record can't be deleted.
        """

    def discard(self, group: str) -> None:
        """Delete all records of a group."""


class SharedRecords(Records, Protocol):
    """Stores records that several processes change at the same time."""

    def stamps(self) -> Mapping[str, Hashable]:
        """Return a stamp for each group with records; it differs after each ``put``.

        Groups whose records have all expired may be included.
        """

    def swap(self, name: str, expected: bytes, data: bytes | None) -> bool:
        """Replace a record that still is ``expected``, or delete it if ``data`` is None.

        Returns:
            Whether it was replaced or deleted.

        Raises:
            StorageError: The record can't be stored; in Redis, it may have been.
        """


def record_name(group: str, subject: str, kind: str) -> str:
    """Return the name of one of several records about a subject."""
    return f"{group}/{subject}.{kind}"


def kinds_of(records: RecordReader, group: str) -> Mapping[str, set[str]]:
    """Return the subjects of a group, each with the kinds of its records."""
    kinds: dict[str, set[str]] = {}
    for name in records.names(group):
        subject, _, kind = name.rpartition("/")[2].rpartition(".")
        kinds.setdefault(subject, set()).add(kind)
    return kinds


def read_or_empty(records: RecordReader, name: str) -> bytes | None:
    """Return a record: empty if it can't be read, None if it does not exist."""
    try:
        return records.read(name)
    except UnreadableFileError:
        return b""


def unchanged_since(
    records: RecordReader, newest: float, subject_of: Callable[[str], str]
) -> Mapping[str, Sequence[str]]:
    """Return the subjects none of whose records was put after a time, each with its records.

    Args:
        records: The records.
        newest: The time (Unix time).
        subject_of: Returns what the record of a name is about.
    """
    changed_at = records.changed_at()
    names: dict[str, list[str]] = {}
    for name in sorted(changed_at):
        names.setdefault(subject_of(name), []).append(name)
    return {
        subject: found
        for subject, found in names.items()
        if max(changed_at[name] for name in found) <= newest
    }


def sweep_records(records: Records, newest: float, is_foreign: Callable[[bytes], bool]) -> int:
    """Delete the records of one subject, ``subject.kind``, if none was put after a time.

    Subjects with a foreign record (of a newer server) stay. A crash in between leaves the last
    kinds in alphabetical order.

    Returns:
        The number of subjects.
    """
    swept = 0
    for names in unchanged_since(records, newest, _subject_of).values():
        if any(is_foreign(read_or_empty(records, name) or b"") for name in names):
            continue
        for name in names:
            with suppress(UnreadableFileError):  # not ours: made by hand
                records.delete(name)
        swept += 1
    return swept


def _subject_of(name: str) -> str:
    return name.rpartition(".")[0]


class RecordStores(Protocol):
    """Opens the records that are kept with the sessions: prompts, profiles, marks."""

    def open(
        self,
        directory: Path,
        folder: str,
        *,
        durable: bool = True,
        owner: str = DEFAULT_OWNER,
        limit: int = DOCUMENT_LIMIT,
    ) -> Records:
        """Return records; opens nothing.

        Args:
            directory: Where they are, if they are files.
            folder: Where they are in an object store.
            durable: Whether files must survive a power cut.
            owner: Whose folder of the object store has them.
            limit: The largest record that is read, in bytes.
        """
        ...

    def open_one(self, directory: Path, name: str) -> Records:
        """Return the records of which only one exists, which is read often; opens nothing."""
        ...
