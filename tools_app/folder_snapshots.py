"""Whether anything in folders of code has changed: many folders in one thread hop."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sessions_app.store.atomic import PRIVATE_FILE, make_private_directory, raise_if_unwritable

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_SUFFIX = ".py"

_File = tuple[str, *tuple[int, ...]]


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How a folder looked at a moment.

    Attributes:
        number: Counts the looks; a larger one is later.
        generation: How often somebody asked, in any process, for everything to be read anew.
        files: Name, time of change (ns), size and inode of each ``*.py`` file, at the top and in
            the packages there; None when there is no such folder.
        fault: Why the folder can't be read, if so.
    """

    number: int
    generation: int
    files: Sequence[_File] | None
    fault: str | None = None

    def is_like(self, other: "Look") -> bool:
        """Whether nothing has changed between the two."""
        return (self.generation, self.files, self.fault) == (
            other.generation,
            other.files,
            other.fault,
        )


_Waiting = dict[Path, list[asyncio.Future[Look]]]


class FolderLooks:
    """Looks at folders, for all who ask at the same time at once.

    Args:
        generation_file: A file that all processes share. Its size is the generation: a byte is
            added when everything shall be read anew, so asking costs one ``stat``.
    """

    def __init__(self, generation_file: Path) -> None:
        self._generation_file = generation_file
        self._waiting: _Waiting = {}
        self._looking: asyncio.Task[None] | None = None
        self._number = 0

    async def at(self, folder: Path) -> Look:
        """Return how the folder looks now: at a moment after this was called."""
        look: asyncio.Future[Look] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(folder, []).append(look)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await look

    async def renew(self) -> None:
        """Have all processes read everything anew.

        Raises:
            StorageFull: The disk is full.
        """
        await asyncio.to_thread(self._renew)

    async def _look(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            self._number += 1
            try:
                looks = await asyncio.to_thread(self._look_at, list(waiting), self._number)
            except OSError as error:
                for look in _unanswered(waiting):
                    look.set_exception(error)
                continue
            except asyncio.CancelledError:  # the loop ends
                for look in _unanswered(waiting):
                    look.cancel()
                raise
            for folder, futures in waiting.items():
                for look in _unanswered({folder: futures}):
                    look.set_result(looks[folder])

    def _look_at(self, folders: Sequence[Path], number: int) -> dict[Path, Look]:
        try:
            generation = self._generation_file.stat().st_size
        except FileNotFoundError:
            generation = 0
        return {folder: _look_at(folder, generation, number) for folder in folders}

    def _renew(self) -> None:
        make_private_directory(self._generation_file.parent)
        try:
            descriptor = os.open(self._generation_file, _APPEND, PRIVATE_FILE)
            try:
                os.write(descriptor, b".")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise_if_unwritable(error)
            raise


def _unanswered(waiting: _Waiting) -> list[asyncio.Future[Look]]:
    """Return the futures of those who still wait."""
    return [look for futures in waiting.values() for look in futures if not look.done()]


def _look_at(folder: Path, generation: int, number: int) -> Look:
    try:
        files = tuple(_files(folder, packages=True))
    except (FileNotFoundError, NotADirectoryError):
        return Look(number=number, generation=generation, files=None)
    except OSError as error:
        fault = error.strerror or type(error).__name__
        return Look(number=number, generation=generation, files=(), fault=fault)
    return Look(number=number, generation=generation, files=files)


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
