"""Copies the packaged example data into a directory, without overwriting anything."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from agents_app.prompts import DEFAULT_PROMPTS
from sessions_app.store.atomic import make_private_directory, write_atomically

EXAMPLES = "examples"
AGENT_PROMPTS = {
    "docs/agents/agent_prompt_planning.md": "planning.md",
    "docs/agents/agent_prompt_execution.md": "execution.md",
}
"""The default paths of agents' prompts, and the packaged files."""

CODE = ".py"
_MADE_BY_PYTHON = "__pycache__"


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of copying: paths relative to the target, in order.

    Attributes:
        wrote: New files.
        left: Files and folders that existed already and were not touched.
    """

    wrote: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def copy_examples(target: Path) -> Copied:
    """Copy the packaged examples into a directory, which is made if necessary.

    No file is overwritten. A folder of Python code is copied whole or not at all: modules of ours
    would be tools beside those of the user, and an ``__init__.py`` would decide which are.

    Raises:
        OSError: A file can't be written; what was written before stays.
        StorageFull: No space is left.
    """
    make_private_directory(target)
    copied = Copied()
    _copy(files("mochi_project") / EXAMPLES, target, Path(), copied)
    for name, packaged in AGENT_PROMPTS.items():
        _copy_file(files("agents_app") / DEFAULT_PROMPTS / packaged, target, Path(name), copied)
    return copied


def _copy(source: Traversable, target: Path, relative: Path, copied: Copied) -> None:
    entries = sorted(source.iterdir(), key=lambda entry: entry.name)
    if any(entry.name.endswith(CODE) for entry in entries) and _is_taken(target / relative):
        copied.left.append(f"{relative}/")
        return
    for entry in entries:
        inner = relative / entry.name
        if entry.name == _MADE_BY_PYTHON:
            continue
        if entry.is_dir():
            _copy(entry, target, inner, copied)
        else:
            _copy_file(entry, target, inner, copied)


def _copy_file(source: Traversable, target: Path, relative: Path, copied: Copied) -> None:
    try:
        write_atomically(target / relative, source.read_bytes(), exclusive=True)
    except FileExistsError:
        copied.left.append(str(relative))
    else:
        copied.wrote.append(str(relative))


def _is_taken(directory: Path) -> bool:
    """Return whether there is anything; an empty directory may be filled."""
    try:
        return any(_entries(directory))
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return True


def _entries(directory: Path) -> Iterator[Path]:
    return (entry for entry in directory.iterdir() if entry.name != _MADE_BY_PYTHON)
