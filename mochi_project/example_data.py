"""The data directory to begin with, and how it is copied without overwriting anything."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sessions_app.atomic import make_private_directory, write_atomically

EXAMPLES = "examples"
PACKAGE_FILE = "__init__.py"
_MADE_BY_PYTHON = "__pycache__"


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of the examples: paths relative to the target, in order.

    Attributes:
        wrote: Files that are new.
        left: Files and folders that stood there already and were not touched.
    """

    wrote: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def copy_examples(target: Path) -> Copied:
    """Copy the packaged examples into a directory, which is made if it is not there.

    No file is overwritten. A folder of Python code is copied whole or not at all: an
    ``__init__.py`` of ours beside somebody's own modules would decide which of them are tools.

    Raises:
        OSError: Something can't be written; what was written before stays.
        StorageFull: No space is left.
    """
    make_private_directory(target)
    copied = Copied()
    _copy(files("mochi_project") / EXAMPLES, target, Path(), copied)
    return copied


def _copy(source: Traversable, target: Path, relative: Path, copied: Copied) -> None:
    entries = sorted(source.iterdir(), key=lambda entry: entry.name)
    if any(entry.name == PACKAGE_FILE for entry in entries) and _is_taken(target / relative):
        copied.left.append(f"{relative}/")
        return
    for entry in entries:
        inner = relative / entry.name
        if entry.name == _MADE_BY_PYTHON:
            continue
        if entry.is_dir():
            _copy(entry, target, inner, copied)
            continue
        try:
            write_atomically(target / inner, entry.read_bytes(), exclusive=True)
        except FileExistsError:
            copied.left.append(str(inner))
        else:
            copied.wrote.append(str(inner))


def _is_taken(directory: Path) -> bool:
    """Whether something stands there already; an empty directory may be filled."""
    try:
        return any(_entries(directory))
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return True


def _entries(directory: Path) -> Iterator[Path]:
    return (entry for entry in directory.iterdir() if entry.name != _MADE_BY_PYTHON)
