"""Detects changes of tool folders: stat snapshots, batched into one thread call."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tools_app.storage.generations import Generations

_SUFFIX = ".py"

_File = tuple[str, *tuple[int, ...]]


class FolderSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a folder at one moment.

    Attributes:
        number: Numbers the snapshots of a process; a larger one is later.
        generation: Identifies the last reload that was asked for, in any process.
        files: Name, time of change (ns), size and inode of each ``*.py`` file, at the top and in
            the packages there; None when there is no such folder.
        fault: Why the folder can't be read, if so.
    """

    number: int
    generation: bytes
    files: Sequence[_File] | None
    fault: str | None = None

    def matches(self, other: "FolderSnapshot") -> bool:
        """Return whether nothing changed between the two."""
        of_other = (other.generation, other.files, other.fault)
        return (self.generation, self.files, self.fault) == of_other


_Waiting = dict[Path, list[asyncio.Future[FolderSnapshot]]]


class FolderSnapshots:
    """Takes snapshots of folders, all that are asked for at the same time in one thread call.

    Args:
        generations: The generation of the folders, shared by all processes.
    """

    def __init__(self, generations: Generations) -> None:
        self._generations = generations
        self._waiting: _Waiting = {}
        self._taking: asyncio.Task[None] | None = None
        self._number = 0

    async def take(self, folder: Path) -> FolderSnapshot:
        """Return the state of the folder at a moment after this was called."""
        snapshot: asyncio.Future[FolderSnapshot] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(folder, []).append(snapshot)
        if self._taking is None or self._taking.done():
            self._taking = asyncio.create_task(self._take_all())
        return await snapshot

    async def invalidate(self) -> None:
        """Make all processes load the folders again, changed or not.

        Raises:
            StorageFull: The disk is full.
        """
        await asyncio.to_thread(self._generations.bump)

    async def _take_all(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            self._number += 1
            try:
                taken = await asyncio.to_thread(self._take, list(waiting), self._number)
            except Exception as error:  # noqa: BLE001 - who waits gets it, whatever it is
                for snapshot in _unanswered(waiting):
                    snapshot.set_exception(error)
                continue
            except asyncio.CancelledError:  # the loop ends
                for snapshot in _unanswered(waiting):
                    snapshot.cancel()
                raise
            for folder, futures in waiting.items():
                for snapshot in _unanswered({folder: futures}):
                    snapshot.set_result(taken[folder])

    def _take(self, folders: Sequence[Path], number: int) -> dict[Path, FolderSnapshot]:
        generation = self._generations.current()
        return {folder: _snapshot_of(folder, generation, number) for folder in folders}


def _unanswered(waiting: _Waiting) -> list[asyncio.Future[FolderSnapshot]]:
    """Return the futures that still wait."""
    return [snapshot for futures in waiting.values() for snapshot in futures if not snapshot.done()]


def _snapshot_of(folder: Path, generation: bytes, number: int) -> FolderSnapshot:
    try:
        files = tuple(_files(folder, packages=True))
    except (FileNotFoundError, NotADirectoryError):
        return FolderSnapshot(number=number, generation=generation, files=None)
    except OSError as error:
        fault = error.strerror or type(error).__name__
        return FolderSnapshot(number=number, generation=generation, files=(), fault=fault)
    return FolderSnapshot(number=number, generation=generation, files=files)


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
