"""Says what was taken in of an archive of sessions, and what was not."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mochi_project.management.copy_report import listed
from sessions_app.messages import Attachment
from sessions_app.transfer.taking import Outcome, Taken

_WORDS: Mapping[Outcome, str] = {
    "imported": "imported",
    "same": "there already",
    "different": "left",
}


class ImportReport:
    """Tells what became of each session, and names what is not whole.

    Args:
        left_out: The names of what the archive holds beside sessions and their attachments.
    """

    def __init__(self, left_out: Sequence[str] = ()) -> None:
        self._left_out = left_out
        self._taken: list[Taken] = []

    def add(self, taken: Taken) -> None:
        """Take in what became of a session."""
        self._taken.append(taken)

    def as_json(self, *, attachments_added: int) -> Mapping[str, Any]:
        """Return the report for scripts."""
        return {
            "sessions": [
                {
                    "session_id": taken.session_id,
                    "outcome": taken.outcome,
                    "messages": taken.messages,
                    "attachments": taken.attachments,
                    "missing": [{"id": each.id, "name": each.name} for each in taken.missing],
                }
                for taken in self._taken
            ],
            "attachments_added": attachments_added,
            "left_out": list(self._left_out),
        }

    def lines(self) -> Iterator[str]:
        """Yield the report for people."""
        for taken in self._taken:
            what = f"{_counted(taken.messages, 'message')}"
            if taken.attachments:
                what += f", {_counted(taken.attachments, 'attachment')}"
            if taken.outcome == "different":
                what = "one with this id is here that differs, and stays"
            yield f"{_WORDS[taken.outcome]:14}{taken.session_id}: {what}"
        if self._left_out:
            yield f"not of a session, left out: {listed(self._left_out)}"

    def broken_off(self) -> str:
        """Return what an import that broke off had taken in by then."""
        if not self._taken:
            return "Nothing was taken in."
        return f"{_counted(len(self._taken), 'session')} had been taken in before, the rest not."

    def fault(self) -> str | None:
        """Return why not everything was taken in; None if it was."""
        outcomes = Counter(taken.outcome for taken in self._taken)
        faults = []
        if different := outcomes["different"]:
            faults.append(f"{_counted(different, 'session')} left: nothing is overwritten.")
        missing = {each.id: each for taken in self._taken for each in taken.missing}
        if missing:
            faults.append(missing_sentence(tuple(missing.values()), "The file lacks"))
        return " ".join(faults) or None


def missing_sentence(missing: Sequence[Attachment], verb: str) -> str:
    """Return a sentence that names attachments."""
    return f"{verb} {listed([f'{each.name} ({each.id})' for each in missing])}."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
