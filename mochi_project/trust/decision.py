"""Decides which folders are trusted at a start, and passes that on to the processes it starts."""

import json
import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mochi_project.trust.contents import PART_NAMES, STATE, FolderLayout, Part, parts_of
from mochi_project.trust.records import TrustRecords, TrustRecordsError

INHERITED_VARIABLE = "_MOCHI_TRUST"
"""Passes the first process's decisions to its children, as JSON ``{folder: trusted}``."""


@dataclass(frozen=True, slots=True)
class TrustDecision:
    """The decision whether one folder is trusted, and the contents that it is about.

    Attributes:
        folder: The folder, resolved.
        trusted: Whether its code may be executed, and its ``.env`` be read.
        answered: Whether a person has decided about exactly these contents.
        parts: The contents that need trust; empty where they were not examined.
        changed: The parts that differ from what was trusted.
        fault: Why the record of trusted folders can't be used, if so.
    """

    folder: Path
    trusted: bool
    answered: bool = True
    parts: Mapping[str, Part] = field(default_factory=dict)
    changed: Collection[str] = ()
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """The trust that a server starts with: the parts of its folders that it may use.

    Attributes:
        folder: The data folder.
        trusted: Whether its parts, secrets and tasks are trusted.
        named: Parts named with a path of their own at the start; trusted wherever they are.
        notes: Sentences for the log; none in child processes.
        ignored_env: A ``.env`` that was not read.
        decided: The decisions to pass to child processes: ``{folder: trusted}``.
    """

    folder: Path | None = None
    trusted: bool = True
    named: frozenset[str] = frozenset()
    notes: tuple[str, ...] = field(default=(), compare=False)
    ignored_env: Path | None = None
    decided: Mapping[str, bool] = field(default_factory=dict)

    def allows(self, part: str) -> bool:
        """Return whether a part of the data folder may be used."""
        return self.trusted or part in self.named


ALL_TRUSTED = Trust()


def inherited() -> dict[str, bool]:
    """Return the decisions of the parent process: ``{folder: trusted}``."""
    try:
        known: Any = json.loads(os.environ.get(INHERITED_VARIABLE, ""))
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def pass_on(decided: Mapping[str, bool]) -> None:
    """Pass decisions to child processes, so that all decide alike whatever changes meanwhile."""
    known = inherited()
    if decided.items() - known.items():
        os.environ[INHERITED_VARIABLE] = json.dumps({**known, **decided})


def decide(layout: FolderLayout) -> TrustDecision:
    """Return the parent process's decision about a folder, or make one now. Blocks."""
    known = inherited().get(str(layout.folder))
    if known is not None:
        return TrustDecision(layout.folder, bool(known))
    return judge(layout)


def judge(layout: FolderLayout) -> TrustDecision:
    """Compare a folder with its record. Blocks; asks nobody.

    Examines all parts, also those that this start would not use: a folder is trusted as a whole.
    """
    folder, parts = layout.folder, parts_of(layout)
    try:
        record = TrustRecords().get(folder)
    except TrustRecordsError as error:
        return TrustDecision(folder, trusted=False, parts=parts, fault=str(error))
    if record is None:
        return TrustDecision(folder, trusted=False, answered=not parts, parts=parts)
    changed = [name for name in parts if record.parts.get(name) != parts[name].digest]
    if record.trusted:
        changed = [name for name in changed if name != STATE]  # the server itself changes it
    return TrustDecision(
        folder, record.trusted, not changed, parts, changed if record.trusted else ()
    )


def remember(folder: Path, parts: Mapping[str, Part], *, trusted: bool) -> None:
    """Record a decision about a folder with these parts.

    Raises:
        TrustRecordsError: It can't be recorded.
    """
    digests = {name: part.digest for name, part in parts.items()}
    TrustRecords().put(folder, trusted=trusted, parts=digests)


def notes_on(decision: TrustDecision) -> Iterator[str]:
    """Yield sentences about a decision for the log."""
    if decision.fault:
        yield decision.fault
    if decision.changed:
        yield changed_sentence(decision)
    elif not decision.trusted and decision.parts:
        yield off_sentence(decision.folder, decision.parts)
    for name, part in decision.parts.items():
        if not part.whole:
            yield (
                f"{PART_NAMES[name]} of {shown(decision.folder)} holds too many files for all of "
                "them to be looked at: changes of some will not be noticed"
            )


def off_sentence(folder: Path, parts: Iterable[str]) -> str:
    """Return the sentence for people about a folder that is not trusted."""
    listed = listing(PART_NAMES[name] for name in PART_NAMES if name in set(parts))
    return (
        f"The folder {shown(folder)} is not trusted, so nothing of its {listed} is used: "
        f"look at it, then run `mochi-server trust {shown(folder)}`"
    )


def changed_sentence(decision: TrustDecision) -> str:
    """Return the sentence for people about a trusted folder that has changed."""
    folder = shown(decision.folder)
    listed = listing(PART_NAMES[name] for name in PART_NAMES if name in decision.changed)
    return (
        f"{listed} of the trusted folder {folder} changed since it was trusted: look at it, then "
        f"run `mochi-server trust {folder}`, or `mochi-server trust --revoke {folder}`"
    )


def listing(words: Iterable[str]) -> str:
    """Join words with commas and "and"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def shown(path: Path) -> str:
    """Return a path quoted for a shell, without characters that would steer a terminal."""
    text = shlex.quote(str(path))
    return "".join(char if char.isprintable() else "?" for char in text)
