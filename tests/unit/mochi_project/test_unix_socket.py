"""A Unix socket to listen on: for its owner, in nobody's place but a dead server's."""

import socket
import stat
from pathlib import Path

import pytest

from mochi_project.config import ConfigurationError, MochiSettings
from mochi_project.server import listening
from mochi_project.unix_socket import listen_on_path


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
