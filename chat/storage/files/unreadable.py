"""Moves unreadable lines and journals to ``.broken`` files, which nothing removes."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from sessions_app.store.atomic import write_atomically

SUFFIX = ".broken"
_PIECE = 1 << 20


def set_lines_aside(path: Path, header: str, is_broken: Callable[[bytes], bool]) -> bool:
    """Move broken lines of a dead writer's journal to a file beside it.

    In the journal they are overwritten with blanks, so that positions do not change. The operation
    is idempotent and loses no line if the process dies in between.

    Args:
        path: The journal.
        header: The first line of the new file.
        is_broken: Returns whether a line, without its line end, is to be moved.

    Returns:
        Whether lines were added to the file.
    """
    broken = [
        (offset, line)
        for offset, line in _whole_lines(path)
        if line.strip() and is_broken(line.removesuffix(b"\n"))
    ]
    if not broken:
        return False
    target = path.with_suffix(f".lines{SUFFIX}")
    kept = _content_of(target) or header.encode("ascii")
    known = set(kept.splitlines(keepends=True))
    added = b"".join(line for _, line in broken if line not in known)
    write_atomically(target, kept + added, durable=False)
    with suppress(PermissionError):  # then the lines stay, and readers skip them
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            for offset, line in broken:
                os.pwrite(descriptor, b" " * (len(line) - 1), offset)
        finally:
            os.close(descriptor)
    return bool(added)


def _whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    offset = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield offset, line
            offset += len(line)


def _content_of(path: Path) -> bytes | None:
    """Return the content of an earlier ``.broken`` file; None if there is no regular file."""
    with suppress(FileNotFoundError):
        if stat.S_ISREG(path.lstat().st_mode):
            return path.read_bytes()
    return None


def copy_aside(path: Path) -> None:
    """Copy a journal to a file beside it."""
    with path.open("rb") as file:
        # Not with shutil, which would write through a link planted at the temporary path.
        write_atomically(_whole(path), iter(partial(file.read, _PIECE), b""))


def move_aside(path: Path) -> None:
    """Rename a journal to a file beside it, if it exists."""
    with suppress(FileNotFoundError):
        path.rename(_whole(path))


def _whole(path: Path) -> Path:
    return path.with_suffix(f".journal{SUFFIX}")
