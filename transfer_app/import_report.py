"""Reports what an import took in, and what it did not."""

from collections.abc import Iterator, Mapping, Sequence

from sessions_app.messages import Attachment
from transfer_app.archive_import import Outcome
from transfer_app.copy_report import listed
from transfer_app.report import ImportSummary

SHOWN = 50
"""Sessions and problems that are named on the screen."""
_WORDS: Mapping[Outcome, str] = {
    "imported": "imported",
    "same": "there already",
    "different": "left",
}


class ImportReport:
    """Tells people what became of each session, and names what is not whole.

    Args:
        summary: What is told.
    """

    def __init__(self, summary: ImportSummary) -> None:
        self._summary = summary

    def lines(self) -> Iterator[str]:
        """Yield the report, without what is wrong."""
        summary = self._summary
        for taken in summary.taken[:SHOWN]:
            what = f"{_counted(taken.messages, 'message')}"
            if taken.attachments:
                what += f", {_counted(taken.attachments, 'attachment')}"
            if taken.outcome == "different":
                what = "one with this id is here that differs, and stays"
            yield f"{_WORDS[taken.outcome]:14}{taken.session_id}: {what}"
        if summary.total > SHOWN:
            yield f"... and {_counted(summary.total - SHOWN, 'more session')}"
        for problem in summary.problems[:SHOWN]:
            yield f"not taken in  {problem.place}: {problem.reason}"
        if summary.broken > SHOWN:
            yield f"... and {summary.broken - SHOWN} more that were not taken in"
        if summary.left_out:
            yield f"not of a session, left out: {listed(summary.left_out)}"
        if summary.files_left_out:
            lost = _counted(summary.files_left_out, "image or file", "images and files")
            yield f"{lost} not in the export or of no type that is kept; messages mention them"
        if summary.total > 1 or summary.empty or summary.dry_run:
            yield self._counts()

    def _counts(self) -> str:
        summary = self._summary
        imported = _counted(summary.counts["imported"], "session")
        parts = [f"{imported} {'would be imported' if summary.dry_run else 'imported'}"]
        if summary.branches:
            parts[0] += f", {summary.branches} of them other branches"
        parts += [f"{count} there already" for count in [summary.counts["same"]] if count]
        parts += [f"{count} left" for count in [summary.counts["different"]] if count]
        parts += [f"{count} without messages" for count in [summary.empty] if count]
        return "; ".join(parts)

    def broken_off(self) -> str:
        """Return what an import that broke off had taken in by then."""
        if not self._summary.total:
            return "Nothing was taken in."
        taken = _counted(self._summary.total, "session")
        return f"{taken} had been taken in before, the rest not."

    def fault(self) -> str | None:
        """Return why not everything was taken in; None if it was."""
        summary = self._summary
        faults = []
        if different := summary.counts["different"]:
            faults.append(f"{_counted(different, 'session')} left: nothing is overwritten.")
        if summary.missing:
            faults.append(missing_sentence(tuple(summary.missing.values()), "The file lacks"))
        if summary.broken:
            first = summary.problems[0]
            what = _counted(summary.broken, "entry was", "entries were")
            begin = "" if summary.broken == 1 else ", the first of them"
            faults.append(f"{what} not taken in{begin}: {first.place}: {first.reason}.")
        return " ".join(faults) or None


def missing_sentence(missing: Sequence[Attachment], verb: str) -> str:
    """Return a sentence that names attachments."""
    return f"{verb} {listed([f'{each.name} ({each.id})' for each in missing])}."


def _counted(number: int, what: str, many: str = "") -> str:
    return f"{number:,} {what if number == 1 else many or f'{what}s'}"
