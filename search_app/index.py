"""Stores a full-text index in SQLite: a cache, which may be deleted at any time.

::

    {directory}/search.sqlite3     with -wal and -shm while it is in use
    {directory}/search.lock        locked by the one process that writes

The full-text table (FTS5) is contentless. Texts are split and folded by ``words_of``, so its
tokenizer only splits at spaces. Row ids are derived from the time of the session's last change, so
that reading rows backwards gives results in order (docs/decisions/0078).
"""

import os
import sqlite3
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from search_app.reader import IndexReader
from search_app.writer import IndexWriter
from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory

Connect = Callable[..., sqlite3.Connection]

READ_SECONDS = 0.25
WRITE_SECONDS = 5.0

VERSION = f"3 {unicodedata.unidata_version}"
"""The version of all that rows depend on; an index of another version is rebuilt."""

_TRANSIENT = frozenset(
    [
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY),
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL),
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT),
    ]
)
_SCHEMA = """
CREATE TABLE meta (version TEXT);
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY, id TEXT UNIQUE, stamp TEXT, updated_at TEXT,
    first_row INTEGER, last_row INTEGER, entries INTEGER
);
CREATE INDEX sessions_by_row ON sessions (first_row);
CREATE INDEX sessions_by_time ON sessions (updated_at, last_row);
CREATE TABLE entries (
    row INTEGER PRIMARY KEY, session INTEGER, role TEXT, timestamp TEXT, model TEXT,
    message_index INTEGER, message_id TEXT, text TEXT
);
CREATE VIRTUAL TABLE words USING fts5(
    text, content='', columnsize=0, prefix='1 2', tokenize='ascii'
);
"""


class IndexUnavailable(Exception):
    """The index can't be used.

    Attributes:
        is_missing: Whether the index does not exist.
        is_broken: Whether the index must be rebuilt.
    """

    def __init__(self, reason: str, *, is_missing: bool = False, is_broken: bool = False) -> None:
        super().__init__(reason)
        self.is_missing = is_missing
        self.is_broken = is_broken


class SearchIndex:
    """Accesses the index in a file, with a new connection for each use in the calling thread.

    Args:
        path: The file.
        connect: Opens a connection.
    """

    def __init__(self, path: Path, *, connect: Connect = sqlite3.connect) -> None:
        self.path = path
        self._connect = connect

    @contextmanager
    def reading(self) -> Iterator[IndexReader]:
        """Open a consistent snapshot of the index for reading.

        Raises:
            IndexUnavailable: The index does not exist or can't be read.
        """
        with self._translated(), closing(self._open(READ_SECONDS)) as connection:
            connection.execute("PRAGMA query_only = 1")
            connection.execute("BEGIN")
            _require_version(connection)
            yield IndexReader(connection)

    @contextmanager
    def writing(self) -> Iterator[IndexWriter]:
        """Open the index for writing; create it if needed. Call only under the lock.

        Raises:
            IndexUnavailable: The index can't be written.
        """
        if not os.path.lexists(self.path):
            self._make()
        with self._translated(), closing(self._open(WRITE_SECONDS)) as connection:
            _require_version(connection)
            connection.execute("PRAGMA secure_delete = ON")  # people delete texts for a reason
            yield IndexWriter(connection)

    def remove(self) -> None:
        """Delete the files of the index. Call only under the lock."""
        for ending in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                self.path.with_name(self.path.name + ending).unlink()

    def _make(self) -> None:
        self.remove()  # what another one left beside it
        make_private_directory(self.path.parent, durable=False)
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
        try:
            with self._translated(), closing(self._open(WRITE_SECONDS)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(f"BEGIN; {_SCHEMA}")
                connection.execute("INSERT INTO meta VALUES (?)", (VERSION,))
                connection.execute("COMMIT")
        except IndexUnavailable:
            self.remove()
            raise

    def _open(self, seconds: float) -> sqlite3.Connection:
        try:
            if not stat.S_ISREG(os.lstat(self.path).st_mode):
                raise IndexUnavailable("not a regular file")
        except FileNotFoundError:
            raise IndexUnavailable("missing", is_missing=True) from None
        connection = self._connect(
            f"file:{quote(os.fspath(self.path))}?mode=rw",
            uri=True,
            timeout=seconds,
            isolation_level=None,
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            lacks = "no such module" in str(error)
            moved = code == sqlite3.SQLITE_READONLY and not os.path.lexists(self.path)
            raise IndexUnavailable(
                str(error), is_missing=moved, is_broken=code not in _TRANSIENT and not lacks
            ) from error


def _require_version(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT * FROM meta").fetchone() != (VERSION,):
        raise IndexUnavailable("of another version", is_broken=True)
