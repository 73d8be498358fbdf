"""Collects the results of an import, for scripts and people."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sessions_app.messages import Attachment
from sessions_app.transfer.archive_import import Taken
from sessions_app.transfer.entries import Problem

MOST_TOLD = 1000
"""Sessions, problems and names that a report tells one by one; it counts all of them."""


class ImportSummary:
    """Counts what was taken in, and tells the first of it.

    Args:
        dry_run: Whether nothing was written.

    Attributes:
        dry_run: Whether nothing was written.
        taken: What became of the first sessions.
        problems: The first of what was not taken in.
        counts: How many sessions there are of each outcome.
        branches: How many of the imported ones are other branches than the one that is shown.
        empty: How many conversations have no messages.
        broken: How many entries were not taken in.
        attachments_added: How many images and files were not kept before.
        missing: Attachments that neither the file nor the store has.
        files_left_out: How many images and files the export speaks of and does not have.
        left_out: The names of what else the files hold.
    """

    def __init__(self, *, dry_run: bool = False) -> None:
        self.dry_run = dry_run
        self.taken: list[Taken] = []
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
        """Return how many sessions were looked at."""
        return self.counts.total()

    def add(self, found: Taken | Problem) -> None:
        """Take in what became of a session, or of what is none."""
        if isinstance(found, Problem):
            self.empty += found.is_empty
            self.broken += not found.is_empty
            if not found.is_empty and len(self.problems) < MOST_TOLD:
                self.problems.append(found)
            return
        self.counts[found.outcome] += 1
        self.branches += found.is_branch and found.outcome == "imported"
        self.files_left_out += len(found.left_out)
        if len(self.missing) < MOST_TOLD:
            self.missing.update((each.id, each) for each in found.missing)
        if len(self.taken) < MOST_TOLD:
            self.taken.append(found)

    def leave_out(self, names: Sequence[str]) -> None:
        """Take in the names of what else a file holds."""
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


def _taken_to_json(taken: Taken) -> Mapping[str, Any]:
    return {
        "session_id": taken.session_id,
        "outcome": taken.outcome,
        "messages": taken.messages,
        "attachments": taken.attachments,
        "missing": [{"id": each.id, "name": each.name} for each in taken.missing],
    }
