"""Reads a snapshot of an index."""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from search_app.entries import Entry
from search_app.rows import row_at
from search_app.search_request import Cursor, SearchRequest

COUNTED = 300
"""The maximum number of results counted; beyond it, the number is estimated."""

_LAST_ROW = (1 << 63) - 1
_TABLES = "FROM words CROSS JOIN entries ON entries.row = words.rowid"  # in this order


class IndexReader:
    """Reads a snapshot of the index."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def stamps(self) -> dict[str, str]:
        """Return the stamps of the indexed sessions by their ids."""
        return dict(self._connection.execute("SELECT id, stamp FROM sessions"))

    def found(self, request: SearchRequest) -> Iterator[tuple[str, Entry]]:
        """Yield (session id, entry) of the results after the cursor, in order."""
        condition, values = _condition(request)
        values["before"] = self._row_of(request.cursor)
        for row, session_id, first_row, *columns in self._connection.execute(
            "SELECT entries.row, sessions.id, sessions.first_row, entries.message_index, "
            "entries.message_id, entries.role, entries.model, entries.timestamp, entries.text "
            f"{_TABLES} CROSS JOIN sessions ON sessions.key = entries.session "
            f"WHERE {condition} AND words.rowid < :before ORDER BY words.rowid DESC",
            values,
        ):
            index, message_id, role, model, timestamp, text = columns
            entry = Entry(
                place=row - first_row,
                message_index=index,
                message_id=message_id,
                role=role,
                model=model,
                timestamp=timestamp,
                text=text,
            )
            yield session_id, entry

    def count(self, request: SearchRequest) -> int:
        """Return the number of results on all pages, estimated beyond ``COUNTED``."""
        condition, values = _condition(request)
        count, last = self._one(
            f"SELECT count(*), min(row) FROM (SELECT entries.row {_TABLES} "  # noqa: S608 - ours
            f"WHERE {condition} ORDER BY words.rowid DESC LIMIT {COUNTED})",
            values,
        )
        if count < COUNTED:
            return int(count)
        total, looked_at = self._one(
            "SELECT sum(entries), sum(CASE WHEN first_row >= :last THEN entries "
            "WHEN last_row >= :last THEN last_row - :last + 1 END) FROM sessions",
            {"last": last},
        )
        return max(count, count * total // max(looked_at, 1))

    def _row_of(self, cursor: Cursor | None) -> int:
        """Return the row below which the results after the cursor are."""
        if cursor is None:
            return _LAST_ROW
        known = self._connection.execute(
            "SELECT first_row, last_row FROM sessions WHERE id = ? AND updated_at = ?",
            (cursor.session_id, cursor.updated_at),
        ).fetchone()
        if known is None:
            return row_at(cursor.updated_at)
        first, last = known
        return int(min(first + cursor.place, last + 1))

    def _one(self, statement: str, values: Mapping[str, Any]) -> tuple[int, ...]:
        row: tuple[int, ...] = self._connection.execute(statement, values).fetchone()
        return row


def _condition(request: SearchRequest) -> tuple[str, dict[str, Any]]:
    """Return the SQL equivalent of ``SearchRequest.takes``, and its parameters."""
    conditions = ["words MATCH :words"]
    conditions.append("role != 'system'" if request.role is None else "role = :role")
    if request.model is not None:
        conditions.append("entries.model = :model")
    if request.since is not None:
        conditions.append("timestamp >= :since")
    if request.until is not None:
        conditions.append("timestamp < :until")
    values = {
        "words": request.query.expression(),
        "role": request.role,
        "model": request.model,
        "since": request.since,
        "until": request.until,
    }
    return " AND ".join(conditions), values
