"""Reports what was copied between two stores, and what was not."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

Outcome = Literal["copied", "same", "different", "unreadable"]

SHOWN = 5


class CopiedName(msgspec.Struct, frozen=True, kw_only=True):
    """Tells what became of a name.

    Attributes:
        part: Its part, for people.
        name: The name.
        outcome: What was done, or would be.
        reason: Why it can't be read, if so.
        was_claimed: Whether it is a session whose turn had no end.
    """

    part: str
    name: str
    outcome: Outcome
    reason: str = ""
    was_claimed: bool = False


class CopyReport:
    """Counts what was copied, and names what was not.

    Args:
        dry_run: Whether nothing was, but would be.
    """

    def __init__(self, *, dry_run: bool) -> None:
        self._dry_run = dry_run
        self._counts: dict[str, Counter[Outcome]] = {}
        self._left: list[CopiedName] = []
        self._interrupted: list[str] = []

    def add(self, copied: CopiedName) -> None:
        """Take in what became of a name."""
        self._counts.setdefault(copied.part, Counter())[copied.outcome] += 1
        if copied.outcome in ("different", "unreadable"):
            self._left.append(copied)
        if copied.was_claimed:
            self._interrupted.append(copied.name.removesuffix(".json"))

    def as_json(self) -> Mapping[str, Any]:
        """Return the report for scripts."""
        return {
            "dry_run": self._dry_run,
            "parts": {part: dict(counts) for part, counts in self._counts.items()},
            "left": [
                {"part": item.part, "name": item.name, "reason": _reason(item)}
                for item in self._left
            ],
            "interrupted": self._interrupted,
        }

    def lines(self, target: str) -> Iterator[str]:
        """Yield the report for people."""
        copied = "would be copied" if self._dry_run else "copied"
        for part, counts in self._counts.items():
            same = f", {counts['same']} there already" if counts["same"] else ""
            yield f"{counts['copied']:6}  {part} {copied}{same}"
        for item in self._left:
            yield f"left: {item.part}, {item.name}: {_reason(item)}"
        if self._interrupted:
            yield (
                "turns without an end, copied without text that was not saved: "
                f"{listed(self._interrupted)}"
            )
        if not self._counts:
            yield "There is nothing to copy."
        elif not self._dry_run:
            yield f"\n{target} has it. `mochi-server sessions check` with its settings checks it."

    def fault(self) -> str | None:
        """Return why the copy is not whole; None if it is."""
        if not self._left:
            return None
        names = listed([f"{item.part}/{item.name}" for item in self._left])
        return f"{names} {'was' if len(self._left) == 1 else 'were'} left; nothing was overwritten."


def _reason(item: CopiedName) -> str:
    return item.reason or "another one is there"


def listed(items: Sequence[object]) -> str:
    """Return some names for people, not all if there are many."""
    more = len(items) - SHOWN
    return ", ".join(map(str, items[:SHOWN])) + (f" and {more} more" if more > 0 else "")
