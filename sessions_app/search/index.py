"""Keeps an index of words in SQLite: a cache, which may be deleted at any time.

::

    {state_dir}/search.sqlite3     with -wal and -shm while it is in use
    {state_dir}/search.lock        held by the one process that writes

The full-text table (FTS5) holds no texts: ``words_of`` splits and folds them, so that its tokenizer
finds nothing but spaces. Its rows are numbered by when their session was changed, so that reading
them backwards gives the order of results, however many there are (docs/decisions/0078).
"""

import os
import sqlite3
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import quote

import msgspec

from sessions_app.search.entries import Entry
from sessions_app.search.wanted import Cursor, Wanted
from sessions_app.search.words import words_of
from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory

Connect = Callable[..., sqlite3.Connection]

VERSION = f"1 {unicodedata.unidata_version}"
"""What the rows depend on; an index of another version is built anew."""
READ_SECONDS = 0.25
WRITE_SECONDS = 5.0
COUNTED = 1_000
"""So many results are counted; beyond that their number is estimated."""

_LAST_ROW = (1 << 63) - 1
_ROWS_OF_A_MICROSECOND = 11  # bits: with those of microseconds, 63 until the year 2112
_MOST_MICROSECONDS = (1 << 52) - 1
_TRANSIENT = frozenset(
    [
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY),
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL),
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT),
    ]
)
_SCHEMA = """
CREATE TABLE meta (version TEXT, generation TEXT, changes INTEGER, removals INTEGER);
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY, id TEXT UNIQUE, stamp TEXT, updated_at TEXT,
    first_row INTEGER, last_row INTEGER, entries INTEGER, change INTEGER
);
CREATE INDEX sessions_by_row ON sessions (first_row);
CREATE INDEX sessions_by_time ON sessions (updated_at);
CREATE INDEX sessions_by_change ON sessions (change);
CREATE TABLE entries (
    row INTEGER PRIMARY KEY, session INTEGER, role TEXT, timestamp TEXT, model TEXT,
    message_index INTEGER, message_id TEXT, text TEXT
);
CREATE VIRTUAL TABLE words USING fts5(text, content='', columnsize=0, prefix='1 2', tokenize='ascii');
"""
_TABLES = "FROM words CROSS JOIN entries ON entries.row = words.rowid"  # in this order


class IndexUnavailable(Exception):
    """The index can't be used.

    Attributes:
        is_missing: Whether there is none.
        is_broken: Whether it must be built anew.
    """

    def __init__(self, reason: str, *, is_missing: bool = False, is_broken: bool = False) -> None:
        super().__init__(reason)
        self.is_missing = is_missing
        self.is_broken = is_broken


class Standing(msgspec.Struct, frozen=True):
    """What an index holds, as numbers that tell whether that has changed.

    Attributes:
        generation: Names the index: one that is built anew has another.
        changes: How many sessions were put in so far.
        removals: How often sessions were taken out.
    """

    generation: str
    changes: int
    removals: int


class SessionRow(msgspec.Struct, frozen=True):
    """A session that shall be found, with all that can be found of it."""

    session_id: str
    stamp: str
    updated_at: str
    entries: Iterable[Entry]


class SearchIndex:
    """The index in a file. Every use opens it and closes it again, in the calling thread.

    Args:
        path: The file.
        connect: What opens it.
    """

    def __init__(self, path: Path, *, connect: Connect = sqlite3.connect) -> None:
        self.path = path
        self._connect = connect

    @contextmanager
    def reading(self) -> Iterator["IndexReader"]:
        """Open the index as it is now; what is written meanwhile is not seen.

        Raises:
            IndexUnavailable: There is none, or it can't be read.
        """
        with self._translated(), closing(self._open(READ_SECONDS)) as connection:
            connection.execute("PRAGMA query_only = 1")
            connection.execute("BEGIN")
            yield IndexReader(connection)

    @contextmanager
    def writing(self) -> Iterator["IndexWriter"]:
        """Open the index to change it, and make it first if there is none. Only under the lock.

        Raises:
            IndexUnavailable: It can't be written.
        """
        if not os.path.lexists(self.path):
            self._make()
        with self._translated(), closing(self._open(WRITE_SECONDS)) as connection:
            yield IndexWriter(connection)

    def remove(self) -> None:
        """Delete the files of the index. Only under the lock."""
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
                connection.execute("INSERT INTO meta VALUES (?, ?, 0, 0)", (VERSION, token_hex(8)))
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
        connection.execute("PRAGMA synchronous = NORMAL")
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


class IndexReader:
    """The index at one moment."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.standing = _standing(connection)

    def stamps(self, since: int = 0) -> dict[str, str]:
        """Return the stamps of the sessions that are in it, by their ids.

        Args:
            since: Only of those that were put in after so many changes.
        """
        return dict(
            self._connection.execute("SELECT id, stamp FROM sessions WHERE change > ?", (since,))
        )

    def found(self, wanted: Wanted) -> Iterator[tuple[int, str, Entry]]:
        """Yield what is found behind the cursor, in order: row, session and entry."""
        condition, values = _condition(wanted)
        values["before"] = self._row_of(wanted.cursor)
        for row, session_id, first_row, *columns in self._connection.execute(
            "SELECT entries.row, sessions.id, sessions.first_row, entries.message_index, "
            "entries.message_id, entries.role, entries.model, entries.timestamp, entries.text "
            f"{_TABLES} CROSS JOIN sessions ON sessions.key = entries.session "
            f"WHERE {condition} AND words.rowid < :before ORDER BY words.rowid DESC",
            values,
        ):
            index, message_id, role, model, timestamp, text = columns
            yield (
                row,
                session_id,
                Entry(
                    place=row - first_row,
                    message_index=index,
                    message_id=message_id,
                    role=role,
                    model=model,
                    timestamp=timestamp,
                    text=text,
                ),
            )

    def count(self, wanted: Wanted) -> int:
        """Return how many there are on all pages; beyond a limit it is estimated."""
        condition, values = _condition(wanted)
        count, last = self._one(
            f"SELECT count(*), min(row) FROM (SELECT entries.row {_TABLES} "  # noqa: S608 - ours
            f"WHERE {condition} ORDER BY words.rowid DESC LIMIT {COUNTED})",
            values,
        )
        if count < COUNTED:
            return int(count)
        total, looked_at = self._one(
            "SELECT sum(entries), sum(CASE WHEN last_row >= :last THEN entries END) FROM sessions",
            {"last": last},
        )
        return max(count, count * total // max(looked_at, 1))

    def _row_of(self, cursor: Cursor | None) -> int:
        """Return the row before which the results stand that come after the cursor."""
        if cursor is None:
            return _LAST_ROW
        if cursor.index == self.standing.generation:
            return cursor.row
        known = self._connection.execute(
            "SELECT first_row, last_row FROM sessions WHERE id = ? AND updated_at = ?",
            (cursor.session_id, cursor.updated_at),
        ).fetchone()
        if known is None:
            return _row_at(cursor.updated_at)
        first, last = known
        return int(min(first + cursor.place, last + 1))

    def _one(self, statement: str, values: Mapping[str, Any]) -> tuple[int, ...]:
        row: tuple[int, ...] = self._connection.execute(statement, values).fetchone()
        return row


class IndexWriter:
    """Changes the index, in transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.standing = _standing(connection)

    def put(self, sessions: Iterable[SessionRow]) -> int:
        """Put sessions in, in place of what is there of them; return how many."""
        with self._transaction():
            return sum(1 for session in sessions if self._put(session))

    def take_out(self, session_ids: Iterable[str]) -> None:
        """Take sessions out."""
        with self._transaction():
            for session_id in session_ids:
                self._take_out(session_id)
            self._connection.execute("UPDATE meta SET removals = removals + 1")

    def _put(self, session: SessionRow) -> bool:
        self._take_out(session.session_id)
        entries = list(session.entries)
        first = self._free_rows(session.updated_at, entries[-1].place + 1 if entries else 1)
        last = first + (entries[-1].place if entries else 0)
        execute = self._connection.execute
        execute("UPDATE meta SET changes = changes + 1")
        key = execute(
            "INSERT INTO sessions (id, stamp, updated_at, first_row, last_row, entries, change) "
            "VALUES (?, ?, ?, ?, ?, ?, (SELECT changes FROM meta))",
            (session.session_id, session.stamp, session.updated_at, first, last, len(entries)),
        ).lastrowid
        for entry in entries:
            row = first + entry.place
            execute(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(row, key, entry.role, entry.timestamp, entry.model),
                    *(entry.message_index, entry.message_id, entry.text),
                ),
            )
            execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (row, _indexed(entry.text)))
        return True

    def _take_out(self, session_id: str) -> None:
        execute = self._connection.execute
        known = execute(
            "SELECT first_row, last_row FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        if known is None:
            return
        for row, text in execute(
            "SELECT row, text FROM entries WHERE row BETWEEN ? AND ?", known
        ).fetchall():
            # A table without texts must be told which words go.
            execute(
                "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
                (row, _indexed(text)),
            )
        execute("DELETE FROM entries WHERE row BETWEEN ? AND ?", known)
        execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    def _free_rows(self, updated_at: str, count: int) -> int:
        """Return where so many free rows begin, at the time of the session or soon after it."""
        execute = self._connection.execute
        (last,) = execute(
            "SELECT max(last_row) FROM sessions WHERE updated_at = ?", (updated_at,)
        ).fetchone()
        first = max(_row_at(updated_at), -1 if last is None else last + 1)
        while True:
            # Blocks don't overlap: only the last one that begins before the end can be in the way.
            known = execute(
                "SELECT last_row FROM sessions WHERE first_row < ? ORDER BY first_row DESC LIMIT 1",
                (first + count,),
            ).fetchone()
            if known is None or known[0] < first:
                return int(first)
            first = known[0] + 1

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):  # it was rolled back already
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _standing(connection: sqlite3.Connection) -> Standing:
    row = connection.execute("SELECT * FROM meta").fetchone()
    if row is None or row[0] != VERSION:
        raise IndexUnavailable("of another version", is_broken=True)
    return Standing(*row[1:])


def _condition(wanted: Wanted) -> tuple[str, dict[str, Any]]:
    """Return what entries must be, as ``Wanted.takes`` has it, and the values for it."""
    conditions = ["words MATCH :words"]
    conditions.append("role != 'system'" if wanted.role is None else "role = :role")
    if wanted.model is not None:
        conditions.append("entries.model = :model")
    if wanted.since is not None:
        conditions.append("timestamp >= :since")
    if wanted.until is not None:
        conditions.append("timestamp < :until")
    values = {
        "words": wanted.query.expression(),
        "role": wanted.role,
        "model": wanted.model,
        "since": wanted.since,
        "until": wanted.until,
    }
    return " AND ".join(conditions), values


def _row_at(updated_at: str) -> int:
    """Return the first row of the sessions that were changed at this time."""
    try:
        time = datetime.fromisoformat(updated_at)
    except ValueError:
        return 0
    since_epoch = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
    microseconds = (since_epoch.days * 86_400 + since_epoch.seconds) * 1_000_000
    microseconds += since_epoch.microseconds
    return min(max(microseconds, 0), _MOST_MICROSECONDS) << _ROWS_OF_A_MICROSECOND


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _indexed(text: str) -> str:
    return " ".join(words_of(text))
