"""The server's own secrets: made once, whole, and for their owner's eyes."""

import os
import secrets
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mochi_project.configuration.secrets import LazySecret, ensure_secret
from mochi_project.trust.own_files import UnsafeFileError
from sessions_app.errors import StorageReadOnly
from sessions_app.store.atomic import make_private_directory


def test_a_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / ".mochi" / "secret_key"

    made = ensure_secret(path)

    assert len(made) >= 40
    assert ensure_secret(path) == made
    assert [entry.name for entry in path.parent.iterdir()] == ["secret_key"]


def test_the_secret_and_its_directory_are_private(tmp_path: Path) -> None:
    path = tmp_path / "data" / ".mochi" / "secret_key"

    ensure_secret(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_a_directory_that_stood_there_keeps_its_mode(tmp_path: Path) -> None:
    directory = tmp_path / ".mochi"
    directory.mkdir(mode=0o755)

    make_private_directory(directory)

    assert stat.S_IMODE(directory.stat().st_mode) == 0o755


def test_an_empty_file_is_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"
    path.touch()

    assert ensure_secret(path)


def link(path: Path) -> None:
    path.with_name("elsewhere").write_text("secret")
    path.symlink_to(path.with_name("elsewhere"))


def loose(path: Path, mode: int) -> None:
    path.write_text("secret")
    path.chmod(mode)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (link, "is a symbolic link"),
        (os.mkfifo, "is not a regular file"),
        (os.mkdir, "is not a regular file"),
        (lambda path: loose(path, 0o620), "can be written by other users"),
        (lambda path: loose(path, 0o602), "can be written by other users"),
        (lambda path: path.write_text("x" * 5000), "is larger than 4096 bytes"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "holds no ASCII text"),
    ],
)
def test_a_secret_is_read_only_from_a_file_of_ones_own(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "secret_key"
    make(path)

    with pytest.raises(UnsafeFileError, match=reason):
        ensure_secret(path)


def test_a_secret_of_another_user_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret_key"
    ensure_secret(path)
    somebody_else = os.geteuid() + 1
    monkeypatch.setattr("mochi_project.trust.own_files.os.geteuid", lambda: somebody_else)

    with pytest.raises(UnsafeFileError, match="belongs to another user"):
        ensure_secret(path)


def test_a_secret_that_others_may_read_is_made_private(tmp_path: Path) -> None:
    """Restored from a backup, say."""
    path = tmp_path / "secret_key"
    loose(path, 0o644)

    assert ensure_secret(path) == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_lazy_secret_touches_nothing_until_its_text_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / ".mochi" / "secret_key"

    secret = LazySecret(path)

    assert secret
    assert not path.exists()
    assert str(secret) == str(secret) == path.read_text()


def test_processes_that_start_together_share_one_secret(tmp_path: Path) -> None:
    path = tmp_path / ".mochi" / "secret_key"
    code = (
        "import sys; from pathlib import Path;"
        "from mochi_project.configuration.secrets import ensure_secret\n"
        "sys.stdin.read(1); print(ensure_secret(Path(sys.argv[1])))"
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for starter in starters:
        assert starter.stdin
        starter.stdin.write("x")
        starter.stdin.flush()
    secrets = {starter.communicate()[0].strip() for starter in starters}

    assert secrets == {path.read_text()}


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(StorageReadOnly):
        ensure_secret(tmp_path / ".mochi" / "secret_key")


def test_threads_that_find_an_empty_file_share_one_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret_key"
    path.touch()
    together = threading.Barrier(8)
    make = secrets.token_urlsafe

    def make_when_all_found_it_empty(size: int = 32) -> str:
        together.wait(timeout=10)
        return make(size)

    monkeypatch.setattr(
        "mochi_project.configuration.secrets.secrets.token_urlsafe", make_when_all_found_it_empty
    )
    with ThreadPoolExecutor(8) as threads:
        made = set(threads.map(ensure_secret, [path] * 8))

    assert made == {path.read_text()}


def test_a_lazy_secret_is_a_string_to_whoever_looks_at_it_and_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "secret_key"

    secret = LazySecret(path)

    assert str(path) in repr(secret)
    assert not path.exists()
    assert len(secret) == 43
    assert not secret.startswith("django-insecure-")
    assert len(set(secret)) > 5
    assert path.read_text() == str(secret) == "".join(secret)
    assert str(secret) not in repr(secret)
