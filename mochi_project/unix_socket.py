"""A listening Unix socket: a file that only its owner may connect to."""

import errno
import os
import socket
import stat
from pathlib import Path

from mochi_project.config import ConfigurationError

_OWNER_ONLY = 0o177


def listen_on_path(path: Path, *, backlog: int) -> socket.socket:
    """Return a listening socket whose file has mode 0600, in place of one that nobody serves.

    Raises:
        ConfigurationError: The path can't be used; the message says why.
    """
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_unused(path)
        before = os.umask(_OWNER_ONLY)  # no moment in which others could connect
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


def remove_socket_file(path: Path) -> None:
    """Remove the file of a socket that was listened on, so that nobody takes it for a server."""
    path.unlink(missing_ok=True)


def _remove_unused(path: Path) -> None:
    """Remove the socket of a server that was killed."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise OSError(errno.EEXIST, "there is a file that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
