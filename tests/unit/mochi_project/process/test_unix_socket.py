"""A Unix socket to listen on: for its owner, in nobody's place but a dead server's."""

import contextlib
import fcntl
import os
import socket
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

from mochi_project.configuration.loading import MochiSettings, load_settings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process import unix_socket
from mochi_project.process.server import listening
from mochi_project.process.unix_socket import listen_on_path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # tmp_path may be too long for a socket's name
    return Path("mochi.sock")


def test_only_its_owner_may_connect_and_its_file_goes_with_it(path: Path) -> None:
    with listening(MochiSettings(unix_socket=path)) as (sockets, url):
        assert url == f"unix:{path.absolute()}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert sockets[0].getsockname() == str(path.absolute())
        sockets[0].close()
    assert not path.exists()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("mode", ["0600", "0660", "0666"])
def test_the_socket_is_never_open_to_more_than_its_mode_says(
    path: Path, mode: str, umask: int
) -> None:
    modes: list[int] = []

    class WatchedSocket(socket.socket):
        def bind(self, address: str) -> None:
            super().bind(address)
            modes.append(stat.S_IMODE(os.stat(address).st_mode))

    before = os.umask(umask)
    try:
        with (
            patch.object(unix_socket.socket, "socket", WatchedSocket),
            listening(MochiSettings(unix_socket=path, unix_socket_mode=mode)) as (sockets, _),
        ):
            modes.append(stat.S_IMODE(path.stat().st_mode))
            sockets[0].close()
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert modes == [int(mode, 8)] * 2


@pytest.mark.parametrize("mode", ["0777", "0640", "rw", "0o660"])
def test_another_mode_stops_the_start_in_a_sentence(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOCHI_UNIX_SOCKET_MODE", mode)
    with pytest.raises(ConfigurationError, match="MOCHI_UNIX_SOCKET_MODE must be '0600', '0660'"):
        load_settings()


def test_a_dead_servers_socket_is_replaced_and_a_living_ones_is_not(path: Path) -> None:
    listen_on_path(path, backlog=1).close()
    with listen_on_path(path, backlog=1), pytest.raises(ConfigurationError, match="it is in use"):
        listen_on_path(path, backlog=1)


def test_what_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(ConfigurationError, match=r"--unix-socket.*there is a file"):
        listen_on_path(path, backlog=1)
    assert path.read_text() == "precious"


def test_a_path_that_can_not_be_one_is_refused_with_a_sentence(path: Path) -> None:
    for wrong in (path / "missing" / "x", Path("x" * 200)):
        with pytest.raises(ConfigurationError, match=r"can't listen on .* \(--unix-socket"):
            listen_on_path(wrong, backlog=1)


def test_a_server_on_a_unix_socket_is_this_machines_alone(path: Path) -> None:
    assert MochiSettings(host="0.0.0.0", unix_socket=path).is_loopback


def test_nothing_is_left_of_a_socket_that_could_not_listen(path: Path) -> None:
    with pytest.raises(ConfigurationError):
        listen_on_path(path / "below", backlog=1)
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(FileNotFoundError):
        client.connect(str(path))


def test_a_server_that_ends_leaves_the_socket_of_the_one_that_took_its_place(path: Path) -> None:
    with listening(MochiSettings(unix_socket=path)) as (sockets, _), sockets[0]:
        path.unlink()
        successor = listen_on_path(path.absolute(), backlog=1)
    with successor, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_servers_that_start_together_take_no_socket_from_each_other(path: Path) -> None:
    """One that is bound and does not listen yet refuses connections as a dead one's does."""
    listen_on_path(path, backlog=1).close()

    def start(_: int) -> socket.socket | None:
        try:
            return listen_on_path(path, backlog=1)
        except ConfigurationError:
            return None

    class LateSocket(socket.socket):
        def listen(self, backlog: int = 128) -> None:
            never.wait(0.1)  # time enough for the other one, which has to wait, to go wrong
            super().listen(backlog)

    never = threading.Event()
    with patch.object(unix_socket.socket, "socket", LateSocket), ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(start, 1), threads.submit(start, 2)
        started = [opened for opened in (first.result(), second.result()) if opened is not None]
    with started[0]:
        assert len(started) == 1


def test_a_server_that_accepts_nobody_is_not_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_socket, "_CONNECT_SECONDS", 0.01)
    with contextlib.ExitStack() as clients:
        clients.enter_context(listen_on_path(path, backlog=0))
        clients.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
        with pytest.raises(ConfigurationError, match="it is in use"):
            listen_on_path(path, backlog=1)


def test_somebody_who_locks_the_directory_keeps_no_server_from_starting(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_socket, "_LOCK_SECONDS", 0.01)
    descriptor = os.open(path.absolute().parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    listen_on_path(path, backlog=1).close()
    os.close(descriptor)
