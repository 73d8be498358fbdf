"""Collects the results of an import, for scripts and people."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sessions_app.messages import Attachment
from transfer_app.archive_import import ImportedArchive, Outcome
from transfer_app.copy_report import listed
from transfer_app.entries import Problem

SHOWN = 50
"""Sessions and problems that are named on the screen."""
MOST_TOLD = 1000
"""The maximum sessions, problems and names listed in a report; all of them are counted."""
_WORDS: Mapping[Outcome, str] = {
    "imported": "imported",
    "same": "there already",
    "different": "left",
}


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

    def lines(self) -> Iterator[str]:
        """Yield the report, without what is wrong."""
        for taken in self.taken[:SHOWN]:
            what = f"{_counted(taken.messages, 'message')}"
            if taken.attachments:
                what += f", {_counted(taken.attachments, 'attachment')}"
            if taken.outcome == "different":
                what = "one with this id is here that differs, and stays"
            yield f"{_WORDS[taken.outcome]:14}{taken.session_id}: {what}"
        if self.total > SHOWN:
            yield f"... and {_counted(self.total - SHOWN, 'more session')}"
        for problem in self.problems[:SHOWN]:
            yield f"not taken in  {problem.place}: {problem.reason}"
        if self.broken > SHOWN:
            yield f"... and {self.broken - SHOWN} more that were not taken in"
        if self.left_out:
            yield f"not of a session, left out: {listed(self.left_out)}"
        if self.files_left_out:
            lost = _counted(self.files_left_out, "image or file", "images and files")
            yield f"{lost} not in the export or of no type that is kept; messages mention them"
        if self.total > 1 or self.empty or self.dry_run:
            yield self._counts()

    def _counts(self) -> str:
        imported = _counted(self.counts["imported"], "session")
        parts = [f"{imported} {'would be imported' if self.dry_run else 'imported'}"]
        if self.branches:
            parts[0] += f", {self.branches} of them other branches"
        parts += [f"{count} there already" for count in [self.counts["same"]] if count]
        parts += [f"{count} left" for count in [self.counts["different"]] if count]
        parts += [f"{count} without messages" for count in [self.empty] if count]
        return "; ".join(parts)

    def broken_off(self) -> str:
        """Return what an import that broke off had taken in by then."""
        if not self.total:
            return "Nothing was taken in."
        taken = _counted(self.total, "session")
        return f"{taken} had been taken in before, the rest not."

    def fault(self) -> str | None:
        """Return why not everything was taken in; None if it was."""
        faults = []
        if different := self.counts["different"]:
            faults.append(f"{_counted(different, 'session')} left: nothing is overwritten.")
        if self.missing:
            faults.append(missing_sentence(tuple(self.missing.values()), "The file lacks"))
        if self.broken:
            first = self.problems[0]
            what = _counted(self.broken, "entry was", "entries were")
            begin = "" if self.broken == 1 else ", the first of them"
            faults.append(f"{what} not taken in{begin}: {first.place}: {first.reason}.")
        return " ".join(faults) or None


def missing_sentence(missing: Sequence[Attachment], verb: str) -> str:
    """Return a sentence that names attachments."""
    return f"{verb} {listed([f'{each.name} ({each.id})' for each in missing])}."


def _taken_to_json(result: ImportedArchive) -> Mapping[str, Any]:
    return {
        "session_id": result.session_id,
        "outcome": result.outcome,
        "messages": result.messages,
        "attachments": result.attachments,
        "missing": [{"id": each.id, "name": each.name} for each in result.missing],
    }


def _counted(number: int, what: str, many: str = "") -> str:
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"
