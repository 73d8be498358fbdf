"""Reads or creates the server's secrets in ``{data_dir}/.mochi``, shared by all processes."""

import secrets
from pathlib import Path

from django.utils.functional import SimpleLazyObject

from mochi_project.trust.own_files import UnsafeFileError, read_own_file
from sessions_app.store.atomic import write_atomically
from sessions_app.store.locks import locked_directory

SECRET_KEY_FILE = "secret_key"  # noqa: S105 - a file name
API_TOKEN_FILE = "api_token"  # noqa: S105 - a file name
MAX_SECRET_BYTES = 4096
LOCK_SECONDS = 30.0


class LazySecret(SimpleLazyObject):  # type: ignore[type-arg]  # not subscriptable
    """A secret that is read or created when its text is first used.

    Its truth value does not read it, so that libraries that test it on import (django-q2) create no
    file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: ensure_secret(path))
        self.__dict__["_path"] = path

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"LazySecret({str(self.__dict__['_path'])!r})"  # never its text


def check_secret(path: Path) -> None:
    """Check that an existing secret may be used.

    Raises:
        UnsafeFileError: The file is not private to this user.
        OSError: The file can't be read.
    """
    _read(path)


def ensure_secret(path: Path) -> str:
    """Return the secret in ``path``; create it (43 characters, mode 0600) if there is none.

    Processes that start concurrently get the same secret: the first to write it wins. Missing
    directories are created with mode 0700.

    Raises:
        UnsafeFileError: The file is not private to this user.
        OSError: The file can't be read or created.
        StorageFull, StorageReadOnly: The directory can't be written to.
    """
    if secret := _read(path):
        return secret
    new = secrets.token_urlsafe(32).encode()
    try:
        write_atomically(path, new, exclusive=True)
    except FileExistsError:
        # Otherwise processes could each write their own.
        with locked_directory(path.parent, timeout_seconds=LOCK_SECONDS):
            if not _read(path):  # empty: left by hand or by a full disk
                write_atomically(path, new)
    return _read(path)


def _read(path: Path) -> str:
    try:
        return read_own_file(path, limit=MAX_SECRET_BYTES).decode("ascii").strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise UnsafeFileError(path, "holds no ASCII text") from error
