"""Listens on a Unix socket that only its owner, its group or every user may connect to."""

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from mochi_project.configuration.setting_errors import ConfigurationError
from sessions_app.store.locks import locked_directory

_CONNECT_SECONDS = 1.0
_LOCK_SECONDS = 1.0


def listen_on_path(path: Path, *, backlog: int, mode: int = 0o600) -> socket.socket:
    """Return a listening socket whose file has a mode; replace an abandoned one.

    Raises:
        ConfigurationError: The path can't be used; the message says why.
    """
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Until it listens, another starting server would consider this socket abandoned.
        with locked_directory(path.parent, timeout_seconds=_LOCK_SECONDS):
            _remove_unused(path)
            # Not changed later: others must not connect even for a moment, and who may write to
            # the directory could put another file in its place.
            before = os.umask(0o777 & ~mode)
            try:
                opened.bind(str(path))
            finally:
                os.umask(before)
            opened.listen(backlog)
    except OSError as error:
        opened.close()
        why = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise ConfigurationError(
            f"can't listen on {path} (--unix-socket, MOCHI_UNIX_SOCKET): {why}"
        ) from error
    return opened


@contextlib.contextmanager
def removed_at_end(path: Path) -> Iterator[None]:
    """Remove the socket's file after the block, unless another server has replaced it."""
    ours = _identity(path)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            if _identity(path) == ours:
                path.unlink()


def _identity(path: Path) -> tuple[int, ...]:
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_mtime_ns  # inode numbers are reused


def _remove_unused(path: Path) -> None:
    """Remove the socket of a server that was killed."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise OSError(errno.EEXIST, "there is a file that is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_CONNECT_SECONDS)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except (BlockingIOError, TimeoutError):
            return  # in use: its server is too busy to accept
