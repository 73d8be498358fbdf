"""Collects the results of an import, for scripts and people."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sessions_app.messages import Attachment
from transfer_app.archive_import import ImportedArchive
from transfer_app.entries import Problem

MOST_TOLD = 1000
"""The maximum sessions, problems and names listed in a report; all of them are counted."""


class ImportSummary:
    """Counts the results of an import, and lists the first of them.

    Args:
        dry_run: Whether nothing was written.

    Attributes:
        dry_run: Whether nothing was written.
        taken: The results of the first sessions.
        problems: The first parts not imported.
        counts: The number of sessions by outcome.
        branches: The number of imported branches other than the shown ones.
        empty: The number of conversations without messages.
        broken: The number of entries not imported.
        attachments_added: The number of new images and files.
        missing: Attachments that neither the file nor the store has.
        files_left_out: The number of images and files that the export mentions but lacks.
        left_out: The names of other files in the export.
    """

    def __init__(self, *, dry_run: bool = False) -> None:
        self.dry_run = dry_run
        self.taken: list[ImportedArchive] = []
        self.problems: list[Problem] = []
        self.counts: Counter[str] = Counter()
        self.branches = 0
        self.empty = 0
        self.broken = 0
        self.attachments_added = 0
        self.missing: dict[str, Attachment] = {}
        self.files_left_out = 0
        self.left_out: list[str] = []

    @property
    def total(self) -> int:
        """Return the number of processed sessions."""
        return self.counts.total()

    def add(self, result: ImportedArchive | Problem) -> None:
        """Add the result of a session, or a problem."""
        if isinstance(result, Problem):
            self.empty += result.is_empty
            self.broken += not result.is_empty
            if not result.is_empty and len(self.problems) < MOST_TOLD:
                self.problems.append(result)
            return
        self.counts[result.outcome] += 1
        self.branches += result.is_branch and result.outcome == "imported"
        self.files_left_out += len(result.left_out)
        if len(self.missing) < MOST_TOLD:
            self.missing.update((each.id, each) for each in result.missing)
        if len(self.taken) < MOST_TOLD:
            self.taken.append(result)

    def leave_out(self, names: Sequence[str]) -> None:
        """Add the names of other files."""
        self.left_out += names[: MOST_TOLD - len(self.left_out)]

    def as_json(self) -> Mapping[str, Any]:
        """Return the report for scripts."""
        return {
            "dry_run": self.dry_run,
            "imported": self.counts["imported"],
            "same": self.counts["same"],
            "different": self.counts["different"],
            "branches": self.branches,
            "empty": self.empty,
            "broken": self.broken,
            "sessions": [_taken_to_json(each) for each in self.taken],
            "problems": [{"place": each.place, "reason": each.reason} for each in self.problems],
            "attachments_added": self.attachments_added,
            "attachments_left_out": self.files_left_out,
            "left_out": list(self.left_out),
        }


def _taken_to_json(result: ImportedArchive) -> Mapping[str, Any]:
    return {
        "session_id": result.session_id,
        "outcome": result.outcome,
        "messages": result.messages,
        "attachments": result.attachments,
        "missing": [{"id": each.id, "name": each.name} for each in result.missing],
    }
