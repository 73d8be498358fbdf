"""Reads the ledger for reports, and caches sums so that most lines are read once.

A month's table without sessions is small, so it is cached and updated with new lines.
Reports by session read their months again.
"""

import threading
from dataclasses import dataclass, field

from sessions_app.errors import StorageUnavailable
from usage_app.ledger import Ledger
from usage_app.report import Report, Reporter, ReportQuery, Table, add_to

MOST_ENTRIES = 20_000
_PIECE = 5_000


@dataclass(slots=True)
class _Month:
    """The table of a month, up to the offset that was read."""

    file: int
    place: int = 0
    table: Table = field(default_factory=dict)


class UsageReports:
    """The reports of a ledger. Blocks; one report is made at a time.

    Args:
        ledger: The ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._months: dict[str, _Month] = {}

    def report(self, query: ReportQuery) -> Report:
        """Sum up what is wanted.

        Raises:
            ValidationFailed: There are too many groups.
            StorageUnavailable: The ledger can't be read.
        """
        try:
            return self._report(query)
        except OSError as error:
            raise StorageUnavailable(
                f"The ledger of usage can't be read: {error.strerror or error}."
            ) from error

    def _report(self, query: ReportQuery) -> Report:
        reporter = Reporter(query)
        first, last = query.months
        with self._lock:
            for month in self._ledger.months():
                if not first <= month <= last:
                    continue
                if "session" in query.group_by:
                    self._add_sessions(reporter, month)
                else:
                    reporter.add(self._table(month).items())
        return reporter.report()

    def _add_sessions(self, reporter: Reporter, month: str) -> None:
        table: Table = {}
        for record, _ in self._ledger.follow_month(month, 0):
            if record is None:
                continue
            add_to(table, record, with_session=True)
            if len(table) >= _PIECE:
                reporter.add(table.items())
                table = {}
        reporter.add(table.items())

    def _table(self, month: str) -> Table:
        file, size = self._ledger.identity(month)
        known = self._months.pop(month, None)
        if known is None or known.file != file or size < known.place:
            known = _Month(file)
        for record, end in self._ledger.follow_month(month, known.place):
            known.place = end
            if record is not None:
                add_to(known.table, record, with_session=False)
        if len(known.table) <= MOST_ENTRIES:
            self._months[month] = known
        return known.table
