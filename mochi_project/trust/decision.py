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
"""What the first process of a server decided, as JSON: ``{folder: trusted}``. Not a setting."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a folder is trusted, and what is in it.

    Attributes:
        folder: The folder, resolved.
        trusted: Whether what it can execute may be executed, and its ``.env`` be read.
        answered: Whether a person has decided about exactly what is there now.
        parts: What is there and needs trust; empty where nobody looked.
        changed: The parts that are not what they were when the folder was trusted.
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
    """What a server may use of its folders.

    Attributes:
        folder: The data folder.
        trusted: Whether it is trusted: its parts, its secrets and its tasks.
        named: Parts that the person who started the server named with a path of their own, which
            are trusted wherever they are.
        notes: Sentences for the log; none in processes that another one started.
        ignored_env: A ``.env`` that was not read.
        decided: What other processes of this server need to know: folders, and whether each is
            trusted.
    """

    folder: Path | None = None
    trusted: bool = True
    named: frozenset[str] = frozenset()
    notes: tuple[str, ...] = field(default=(), compare=False)
    ignored_env: Path | None = None
    decided: Mapping[str, bool] = field(default_factory=dict)

    def allows(self, part: str) -> bool:
        """Whether a part of the data folder may be used."""
        return self.trusted or part in self.named


ALL_TRUSTED = Trust()


def inherited() -> dict[str, bool]:
    """Return what the process that started this one decided."""
    try:
        known: Any = json.loads(os.environ.get(INHERITED_VARIABLE, ""))
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def pass_on(decided: Mapping[str, bool]) -> None:
    """Have this process and those that it starts decide alike, whatever changes meanwhile."""
    known = inherited()
    if decided.items() - known.items():
        os.environ[INHERITED_VARIABLE] = json.dumps({**known, **decided})


def decide(layout: FolderLayout) -> Decision:
    """Return what this server decided about a folder before, or judge it now. Blocks."""
    known = inherited().get(str(layout.folder))
    if known is not None:
        return Decision(layout.folder, bool(known))
    return judge(layout)


def judge(layout: FolderLayout) -> Decision:
    """Compare a folder with what is remembered of it. Blocks; asks nobody.

    All of it, also what this start would not use: a folder is trusted as a whole, and a person who
    is asked must have seen it.
    """
    folder, parts = layout.folder, parts_of(layout)
    try:
        record = TrustRecords().get(folder)
    except TrustRecordsError as error:
        return Decision(folder, trusted=False, parts=parts, fault=str(error))
    if record is None:
        return Decision(folder, trusted=False, answered=not parts, parts=parts)
    changed = [name for name in parts if record.parts.get(name) != parts[name].digest]
    if record.trusted:
        changed = [name for name in changed if name != STATE]  # which the server changes itself
    return Decision(folder, record.trusted, not changed, parts, changed if record.trusted else ())


def remember(folder: Path, parts: Mapping[str, Part], *, trusted: bool) -> None:
    """Remember a decision about a folder, and about these parts of it: those that were seen.

    Raises:
        TrustRecordsError: It can't be remembered.
    """
    digests = {name: part.digest for name, part in parts.items()}
    TrustRecords().put(folder, trusted=trusted, parts=digests)


def notes_on(decision: Decision) -> Iterator[str]:
    """Yield what a log should say of a decision, a sentence each."""
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
    """Return what people are told where a folder is not trusted."""
    listed = listing(PART_NAMES[name] for name in PART_NAMES if name in set(parts))
    return (
        f"The folder {shown(folder)} is not trusted, so nothing of its {listed} is used: "
        f"look at it, then run `mochi-server trust {shown(folder)}`"
    )


def changed_sentence(decision: Decision) -> str:
    """Return what people are told where a trusted folder has changed."""
    folder = shown(decision.folder)
    listed = listing(PART_NAMES[name] for name in PART_NAMES if name in decision.changed)
    return (
        f"{listed} of the trusted folder {folder} changed since it was trusted: look at it, then "
        f"run `mochi-server trust {folder}`, or `mochi-server trust --revoke {folder}`"
    )


def listing(words: Iterable[str]) -> str:
    """Join words as a sentence does."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def shown(path: Path) -> str:
    """Return a path as a shell takes it, without what would steer a terminal."""
    text = shlex.quote(str(path))
    return "".join(char if char.isprintable() else "?" for char in text)
