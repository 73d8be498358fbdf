"""Test mode's data directory: fresh for every start, shared by its processes, gone afterwards."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from mochi_project.configuration.config import MochiSettings

DATA_DIR_VARIABLE = "MOCHI_DATA_DIR"


def with_fresh_data_dir(settings: MochiSettings) -> MochiSettings:
    """Return the settings with a new temporary data directory, if test mode was given none.

    The directory is named in the environment too, so that every process started from this one
    (web workers, the background worker) shares it; only the process that made it removes it, when
    it exits or when :func:`remove_fresh_data_dir` is called.
    """
    if not settings.test_mode or "data_dir" in settings.model_fields_set:
        return settings
    path = Path(tempfile.mkdtemp(prefix="mochi-test-"))
    os.environ[DATA_DIR_VARIABLE] = str(path)
    _made_here[path] = os.getpid()
    atexit.register(remove_fresh_data_dir)
    return settings.model_copy(update={"data_dir": path})


def remove_fresh_data_dir() -> None:
    """Remove the directory that this process made, if it made one."""
    for path, process in list(_made_here.items()):
        if process == os.getpid():
            shutil.rmtree(path, ignore_errors=True)
            del _made_here[path]


_made_here: dict[Path, int] = {}
