"""Processes that live, as locks on files show them."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from sessions_app.errors import StorageError, StorageFull, StorageReadOnly
from sessions_app.store.file_owners import FileOwners


def test_a_process_has_one_id_in_a_directory(tmp_path: Path) -> None:
    owner = FileOwners(tmp_path).mine()
    assert FileOwners(tmp_path).mine() == owner
    assert FileOwners(tmp_path / "other").mine() != owner


def test_a_process_that_lost_its_liveness_file_was_given_up_and_takes_a_new_id(
    tmp_path: Path,
) -> None:
    owners, condemned = FileOwners(tmp_path), []
    owners.when_condemned(condemned.append)
    first = owners.mine()
    (tmp_path / f"{first}.lock").unlink()
    second = owners.mine()
    assert second != first
    assert (tmp_path / f"{second}.lock").exists()
    assert condemned == [first]
    assert owners.holds()
    assert (owners.lives(second), owners.lives(first)) == (True, False)


def test_liveness_is_not_inherited_by_started_processes(tmp_path: Path) -> None:
    owner = FileOwners(tmp_path).mine()
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout
        child.stdout.readline()  # it is up, and opens and closes nothing more
        descriptors = {
            os.readlink(path)
            for path in Path(f"/proc/{child.pid}/fd").glob("*")
            if Path("/proc").exists()
        }
        child.kill()
    assert str(tmp_path / f"{owner}.lock") not in descriptors


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, StorageFull), (errno.EROFS, StorageReadOnly)]
)
def test_where_no_liveness_file_can_be_made_the_error_says_why(
    tmp_path: Path, number: int, error: type[StorageError]
) -> None:
    with patch("os.mkdir", side_effect=OSError(number, "no")), pytest.raises(error):
        FileOwners(tmp_path / "workers").mine()
