"""Reads the sessions to be searched and detects changes."""

import hashlib
import os
from pathlib import Path
from typing import Protocol

import msgspec

from search_app.query import Query, may_contain
from sessions_app.errors import SessionCorrupt, SessionNotFound, StorageError
from sessions_app.format.codec import decode
from sessions_app.format.to_json import metadata_to_json
from sessions_app.session import Session, SessionMetadata
from sessions_app.store.atomic import UnreadableFileError, read_regular
from sessions_app.store.repository import Listing, SessionReader
from sessions_app.store.session_files import SIZE_LIMIT


class Source(Protocol):
    """Reads sessions for a search. All calls block."""

    def listing(self, *, anew: bool = False) -> Listing:
        """Return all sessions; the same object if none has changed.

        Args:
            anew: Whether to check each session, even if none seems to have changed.
        """

    def stamp(self, metadata: SessionMetadata) -> str | None:
        """Return a value that changes with the session; None if it does not exist any more."""

    def read(self, session_id: str, query: Query | None = None) -> Session | None:
        """Return the session; None if it can't be read, or can't match the query."""


class StoredSessions:
    """Reads the sessions of a repository, in which every change also changes the metadata."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader

    def listing(self, *, anew: bool = False) -> Listing:  # noqa: ARG002 - the index is up to date
        """Return all sessions."""
        return self._reader.list()

    def stamp(self, metadata: SessionMetadata) -> str | None:
        """Return a digest of the session's metadata."""
        data = msgspec.json.encode(metadata_to_json(metadata), enc_hook=dict, order="sorted")
        return hashlib.blake2b(data, digest_size=12).hexdigest()

    def read(self, session_id: str, query: Query | None = None) -> Session | None:  # noqa: ARG002
        """Return the session; None if it can't be read."""
        try:
            return self._reader.load(session_id)
        except (SessionNotFound, SessionCorrupt, StorageError):
            return None


class SessionsInFiles:
    """Reads the sessions of a directory, bypassing the cache for sessions in use.

    Checking 10,000 files takes longer than searching them. Before a search only files saved by the
    server are checked, unless other programs seem to have replaced some. All files are checked soon
    afterwards (``anew``), for changes by other programs and in-place edits.
    """

    def __init__(self, reader: SessionReader, directory: Path) -> None:
        self._reader = reader
        self._directory = directory

    def listing(self, *, anew: bool = False) -> Listing:
        """Return all sessions."""
        return self._reader.list(quickly=not anew)

    def stamp(self, metadata: SessionMetadata) -> str | None:
        """Return the file's stat values and the time of the session's last change."""
        try:
            status = os.lstat(self._path(metadata.session_id))
        except FileNotFoundError:
            return None
        parts = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return f"{hash(parts):x} {metadata.updated_at}"

    def read(self, session_id: str, query: Query | None = None) -> Session | None:
        """Return the session; None if it can't be read, or can't match the query."""
        try:
            data = read_regular(self._path(session_id), limit=SIZE_LIMIT)
            if query is not None and not may_contain(data, query):
                return None
            return decode(data, session_id)
        except (FileNotFoundError, UnreadableFileError, SessionCorrupt):
            return None

    def _path(self, session_id: str) -> str:
        return f"{self._directory}/{session_id}.json"
