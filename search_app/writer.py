"""Changes an index, in transactions."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from search_app.entries import Entry
from search_app.rows import row_at
from search_app.words import words_of

Step = Callable[[], object]


class SessionRow(msgspec.Struct, frozen=True):
    """A session to be indexed, with its searchable texts."""

    session_id: str
    stamp: str
    updated_at: str
    entries: Sequence[Entry]


class IndexWriter:
    """Changes the index, in transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, sessions: Iterable[SessionRow], step: Step) -> int:
        """Add or replace sessions in one transaction; return how many.

        Args:
            sessions: The sessions.
            step: Called after each session and entry; if it raises, all is rolled back.
        """
        count = 0
        with self._transaction():
            for session in sessions:
                self._put(session, step)
                count += 1
        return count

    def take_out(self, session_ids: Iterable[str], step: Step) -> None:
        """Remove sessions."""
        with self._transaction():
            for session_id in session_ids:
                self._take_out(session_id, step)

    def _put(self, session: SessionRow, step: Step) -> None:
        self._take_out(session.session_id, step)
        entries = session.entries
        first = self._free_rows(session.updated_at, entries[-1].place + 1 if entries else 1)
        last = first + (entries[-1].place if entries else 0)
        execute = self._connection.execute
        key = execute(
            "INSERT INTO sessions (id, stamp, updated_at, first_row, last_row, entries) "
            "VALUES (?, ?, ?, ?, ?, ?)",
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
            step()

    def _take_out(self, session_id: str, step: Step) -> None:
        execute = self._connection.execute
        known = execute(
            "SELECT first_row, last_row FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        step()
        if known is None:
            return
        for row, text in execute(
            "SELECT row, text FROM entries WHERE row BETWEEN ? AND ?", known
        ).fetchall():
            # Removing a row of a contentless table requires its words.
            execute(
                "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
                (row, _indexed(text)),
            )
            step()
        execute("DELETE FROM entries WHERE row BETWEEN ? AND ?", known)
        execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    def _free_rows(self, updated_at: str, count: int) -> int:
        """Return the first of ``count`` free row ids, at the session's time or soon after."""
        execute = self._connection.execute
        (last,) = execute(
            "SELECT max(last_row) FROM sessions WHERE updated_at = ?", (updated_at,)
        ).fetchone()
        first = max(row_at(updated_at), -1 if last is None else last + 1)
        while True:
            # Blocks don't overlap: only the last one that begins before the end can conflict.
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
            with suppress(sqlite3.Error):  # rolled back already
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _indexed(text: str) -> str:
    return " ".join(words_of(text))
