"""The server's own secrets in ``{data_dir}/.mochi``: made once, shared by all processes."""

import os
import secrets
import tempfile
from pathlib import Path

SECRET_KEY_FILE = "secret_key"  # noqa: S105 - a file name
API_TOKEN_FILE = "api_token"  # noqa: S105 - a file name


class LazySecret:
    """A secret that is read, or made, when its text is first asked for.

    Only ``str()`` asks: libraries that test a key for truth while they are imported (django-q2)
    leave no file behind.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = ""

    def __str__(self) -> str:
        if not self._text:
            self._text = ensure_secret(self._path)
        return self._text


def ensure_state_dir(directory: Path) -> Path:
    """Create the state directory (0700, and so every parent that is missing) and return it.

    A directory that stood there keeps its mode.

    Raises:
        OSError: It can't be created.
    """
    for missing in reversed(
        [path for path in (directory, *directory.parents) if not path.exists()]
    ):
        missing.mkdir(mode=0o700, exist_ok=True)
    return directory


def ensure_secret(path: Path) -> str:
    """Return the secret kept in ``path``, making it (43 characters, 0600) when there is none.

    Processes that start together all get the same one: a secret is written to a temporary file
    and linked to its name, so that the first link wins and nobody reads half of it.

    Raises:
        OSError: The file can't be read or made.
    """
    if secret := _read(path):
        return secret
    ensure_state_dir(path.parent)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
            file.flush()
            os.fsync(file.fileno())
        _publish(Path(temporary), path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return _read(path)


def _publish(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        if not _read(path):  # an empty file, left by hand or by a full disk, is no secret
            temporary.replace(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
