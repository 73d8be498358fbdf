"""What the guides' code needs: node, its files, and nginx with their configurations."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.docs.code_of_guide import API, BLOCK, PARSER, ROOT, WriteFiles
from tests.functional.docs.deploying import Proxy, free_port

NOBODY = ("nobody", "nogroup")
"""The user and group of nginx's workers, if the tests may choose them."""


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that nginx's workers may enter, whose group is theirs, as that of what is put there.

    A socket's name has at most 107 characters, and those of pytest's folders are long and private.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if os.getuid() == 0:
            shutil.chown(folder, group=NOBODY[1])
        folder.chmod(0o2755)
        yield folder


@pytest.fixture
def nginx(public_folder: Path) -> Iterator[Proxy]:
    """Run nginx with a configuration of the guide, as another user if it can; returns its address."""
    program = shutil.which("nginx")
    if program is None and os.environ.get("CI") != "true":
        pytest.skip("nginx is not installed")
    processes: list[subprocess.Popen[bytes]] = []

    def run(server_blocks: str, scheme: str) -> str:
        port = free_port()
        place = public_folder / "nginx"
        place.mkdir()
        temporary = "".join(
            f"{name}_temp_path {place}/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        configuration = place / "nginx.conf"
        user = f"user {' '.join(NOBODY)};" if os.getuid() == 0 else ""
        configuration.write_text(
            f"daemon off; {user} worker_processes 1; pid {place}/pid; error_log {place}/log;\n"
            f"events {{}}\nhttp {{ access_log off; {temporary}\n"
            + server_blocks.replace("@PORT@", str(port))
            + "\n}\n"
        )
        processes.append(
            subprocess.Popen([str(program), "-e", f"{place}/log", "-c", str(configuration)])
        )
        wait_for(port, processes[-1], place / "log")
        return f"{scheme}://127.0.0.1:{port}"

    yield run
    for process in processes:
        process.terminate()
        process.wait(30)


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("nginx does not listen")


@pytest.fixture
def write_files(tmp_path: Path) -> WriteFiles:
    """Write the guide's files, for a server at another address, and return their folder."""

    def write(url: str) -> Path:
        for name, code in BLOCK.findall((ROOT / "docs/front-end.md").read_text()):
            (tmp_path / name).write_text(code.replace(API, url))
        return tmp_path

    return write


@pytest.fixture
def node(tmp_path: Path) -> str:
    """Return the path of node, with the parser where the guide's code finds it."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed")
    modules = Path(os.environ.get("MOCHI_E2E_NODE_MODULES", ROOT / "node_modules"))
    if not (modules / PARSER).is_dir():
        pytest.skip(f"{PARSER} is not in {modules}: npm install --no-save {PARSER}")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / PARSER).symlink_to(modules / PARSER)
    return found
