"""Detects changes of tool folders by what ``stat`` says of their files."""

import os
from pathlib import Path

import msgspec

from tools_app.storage.generations import Generations

_SUFFIX = ".py"

_File = tuple[str, *tuple[int, ...]]


class FolderSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a folder at one moment.

    Attributes:
        generation: Identifies the last reload that was asked for, in any process.
        files: Name, time of change (ns), size and inode of each ``*.py`` file, at the top and in
            the packages there; None when there is no such folder.
        fault: Why the folder can't be read, if so.
    """

    generation: bytes
    files: tuple[_File, ...] | None
    fault: str | None = None


def take_snapshot(folder: Path, generations: Generations) -> FolderSnapshot:
    """Return the state of a folder. Blocks."""
    generation = generations.current()
    try:
        files = tuple(_files(folder, packages=True))
    except (FileNotFoundError, NotADirectoryError):
        return FolderSnapshot(generation=generation, files=None)
    except OSError as error:
        fault = error.strerror or type(error).__name__
        return FolderSnapshot(generation=generation, files=(), fault=fault)
    return FolderSnapshot(generation=generation, files=files)


def _files(folder: Path, *, packages: bool) -> list[_File]:
    found: list[_File] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX):
                found.append(_file(entry))
            elif packages and not entry.name.startswith((".", "__")):
                found += _package(entry)
    return sorted(found)


def _package(entry: "os.DirEntry[str]") -> list[_File]:
    """Return the files of a package; none of another directory, which may be huge, or of a file."""
    folder = Path(entry.path)
    try:
        if not entry.is_dir() or not (folder / "__init__.py").exists():
            return []
        files = _files(folder, packages=False)
    except OSError:  # gone meanwhile, or not ours to read: importing it will tell
        return []
    return [(f"{entry.name}/{name}", *numbers) for name, *numbers in files]


def _file(entry: "os.DirEntry[str]") -> _File:
    try:
        status = entry.stat()
    except OSError:  # a link that leads nowhere
        return (entry.name, 0, 0, entry.inode())
    return (entry.name, status.st_mtime_ns, status.st_size, status.st_ino)
