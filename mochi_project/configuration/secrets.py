"""The server's own secrets in ``{data_dir}/.mochi``: made once, shared by all processes."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mochi_project.trust.own_files import UnsafeFileError, read_own_file
from sessions_app.store.atomic import write_atomically

SECRET_KEY_FILE = "secret_key"  # noqa: S105 - a file name
API_TOKEN_FILE = "api_token"  # noqa: S105 - a file name
MAX_SECRET_BYTES = 4096


class LazySecret:
    """A secret that is read, or made, when its text is first asked for.

    It is a string to whoever looks at it (``check --deploy`` counts its characters). Only its truth
    asks for nothing: libraries that test a key for truth while they are imported (django-q2) leave
    no file behind.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = ""

    def __str__(self) -> str:
        if not self._text:
            self._text = ensure_secret(self._path)
        return self._text

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(str(self))

    def __iter__(self) -> Iterator[str]:
        return iter(str(self))

    def __repr__(self) -> str:
        return f"LazySecret({str(self._path)!r})"  # never its text

    def startswith(self, prefix: str | tuple[str, ...]) -> bool:
        """Whether the text begins so, as ``str.startswith``."""
        return str(self).startswith(prefix)


def check_secret(path: Path) -> None:
    """Read a secret, if there is one, to see that it may be used.

    Raises:
        UnsafeFileError: What is there is not a file of this user alone.
        OSError: The file can't be read.
    """
    _read(path)


def ensure_secret(path: Path) -> str:
    """Return the secret kept in ``path``, making it (43 characters, 0600) when there is none.

    Processes that start together all get the same one: the first to write it wins. Missing
    directories are made with mode 0700.

    Raises:
        UnsafeFileError: What is there is not a file of this user alone.
        OSError: The file can't be read or made.
        StorageFull, StorageReadOnly: The directory takes no new file.
    """
    if secret := _read(path):
        return secret
    new = secrets.token_urlsafe(32).encode()
    try:
        write_atomically(path, new, exclusive=True)
    except FileExistsError:
        with _locked(path.parent):  # or each of several processes would put its own there
            if not _read(path):  # an empty file, left by hand or by a full disk, is no secret
                write_atomically(path, new)
    return _read(path)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> str:
    try:
        return read_own_file(path, limit=MAX_SECRET_BYTES).decode("ascii").strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise UnsafeFileError(path, "holds no ASCII text") from error
