"""Says what happens to a test on a machine that has not what it needs."""

import os
import shutil
import subprocess
from typing import NoReturn

import pytest


def skip_without(what: str, hint: str = "") -> NoReturn:
    """Skip the running test; fail it on CI, which must have everything."""
    assert os.environ.get("CI") != "true", f"CI has to have {what}"
    pytest.skip(f"{what} is not on this machine {hint}".rstrip())


def program(name: str) -> str:
    """Return the path of a program."""
    path = shutil.which(name)
    return skip_without(name) if path is None else path


def require_packages(ended: subprocess.CompletedProcess[str]) -> None:
    """Fail with the words of an installer that failed; skip if it has no network."""
    if ended.returncode and ("dns error" in ended.stderr or "Connect" in ended.stderr):
        skip_without(f"the network, or a cache with the packages: {ended.stderr}")
    assert ended.returncode == 0, ended.stderr
