"""The other ways to start: uvicorn, runserver, a program of one's own."""

import shutil
import signal
import socket
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
Start = Callable[..., Any]


@pytest.fixture
def port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def serving(code: str) -> tuple[str, ...]:
    """Return a command that runs ``code``, where ``serve(app)`` serves and prints our line."""
    prelude = """
        import os, uvicorn

        def serve(app, host="127.0.0.1", lifespan="auto"):
            class Server(uvicorn.Server):
                async def startup(self, sockets=None):
                    await super().startup(sockets=sockets)
                    number = self.servers[0].sockets[0].getsockname()[1]
                    print(f"mochi-server listening on http://{host}:{number}", flush=True)
            Server(uvicorn.Config(app, host=host, port=0, lifespan=lifespan)).run()
    """
    return (sys.executable, "-c", textwrap.dedent(prelude) + textwrap.dedent(code))


@pytest.mark.parametrize("lifespan", ["on", "off"])
def test_uvicorn_serves_the_application_with_and_without_lifespan(
    start: Start, lifespan: str
) -> None:
    code = f"serve('mochi_project.asgi:application', lifespan={lifespan!r})"
    server = start(*serving(code), forks_code=lifespan == "off")

    assert server.get("/api/v1/health").status_code == 200
    assert server.get("/api/v1/sessions").json()["total"] == 0
    server.stop(signal.SIGTERM)


def test_uvicorn_in_test_mode_needs_no_ollama_and_leaves_no_data(
    start: Start, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    server = start(
        *serving("serve('mochi_project.asgi:application')"),
        forks_code=True,
        MOCHI_TEST_MODE="true",
        TMPDIR=str(temporary),
    )

    assert server.get("/api/v1/models").json()["models"]
    server.stop(signal.SIGTERM)

    assert list(temporary.iterdir()) == []


def test_connections_from_the_network_need_a_token_however_the_server_was_started(
    start: Start, tmp_path: Path
) -> None:
    address = own_address()
    code = f"serve('mochi_project.asgi:application', host={address!r})"
    server = start(*serving(code), forks_code=True, MOCHI_DATA_DIR="data")

    assert server.get("/api/v1/sessions").status_code == 401
    token = (tmp_path / "data" / ".mochi" / "api_token").read_text()
    assert server.get("/api/v1/sessions", Authorization=f"Bearer {token}").status_code == 200


def test_nodes_of_several_refuse_the_network_until_they_are_given_a_token(
    start: Start, tmp_path: Path, redis_server: str
) -> None:
    address = own_address()
    code = f"serve('mochi_project.asgi:application', host={address!r})"
    server = start(
        *serving(code),
        forks_code=True,
        MOCHI_DATA_DIR="data",
        MOCHI_JOURNAL_URL=redis_server,
        MOCHI_SECRET_KEY="0" * 32,
    )

    assert server.get("/api/v1/sessions").status_code == 401
    assert server.get("/api/v1/health").status_code == 200
    assert not (tmp_path / "data" / ".mochi" / "api_token").exists()
    server.stop()
    assert "are refused: MOCHI_API_TOKEN must be set" in server.stderr


def own_address() -> str:
    """Return an address of this machine that is not loopback, or skip."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no network")
        return str(probe.getsockname()[0])


@pytest.mark.parametrize("reload", [[], ["--noreload"]])
def test_runserver_serves_over_asgi_and_stops_cleanly(
    start: Start, tmp_path: Path, port: int, reload: list[str]
) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "runserver", f"127.0.0.1:{port}", *reload]
    server = start(*command, MOCHI_DATA_DIR=str(tmp_path / "data"))

    assert server.url == f"http://127.0.0.1:{port}"
    assert server.get("/api/v1/health").status_code == 200
    server.stop()
    assert "Traceback" not in server.stderr


def test_runserver_listens_where_the_configuration_says(start: Start, port: int) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "runserver", "--noreload"]
    server = start(*command, MOCHI_PORT=str(port))

    assert server.url == f"http://127.0.0.1:{port}"


def test_runserver_restarts_when_the_code_changes(start: Start, tmp_path: Path) -> None:
    project = copy_of_the_project(tmp_path / "project")
    command = [sys.executable, "manage.py", "runserver", "0"]
    server = start(*command, cwd=project, PYTHONPATH="")

    again = threading.Event()
    threading.Thread(target=listen_for_restart, args=(server, again), daemon=True).start()
    # The reloader may not have looked at the files yet: change them until it has.
    while not again.wait(timeout=0.5):
        (project / "mochi_project" / "urls.py").touch()

    server.stop()


def listen_for_restart(server: Any, again: threading.Event) -> None:
    for line in server.process.stdout:
        if line.startswith("mochi-server listening on"):
            again.set()


def copy_of_the_project(target: Path) -> Path:
    """Copy what runs, so that a test may change it."""
    target.mkdir()
    shutil.copy(ROOT / "manage.py", target)
    for package in ROOT.glob("*/__init__.py"):
        shutil.copytree(package.parent, target / package.parent.name)
    return target


def test_a_program_serves_what_create_app_returns(start: Start, tmp_path: Path) -> None:
    server = start(
        *serving(
            """
            from mochi_server import create_app

            serve(create_app(ollama_host="http://localhost:11434", data_dir="./my_data"))
            """
        )
    )

    assert server.get("/api/v1/health").status_code == 200
    assert (tmp_path / "my_data" / ".mochi" / "secret_key").exists()


def test_a_setting_that_stops_django_is_one_sentence_too(run: Callable[..., Any]) -> None:
    ended = run([sys.executable, str(ROOT / "manage.py"), "check"], MOCHI_WORKERS="many")

    assert ended.returncode == 1
    assert ended.stderr == "mochi-server: MOCHI_WORKERS must be a valid integer (it is 'many')\n"


def test_what_is_there_after_the_warm_up_is_never_collected_again(start: Start) -> None:
    """A full collection over everything imported took 50 to 100 ms, for every stream at once."""
    server = start(
        *serving("""
            import gc
            from mochi_project.asgi import application

            async def app(scope, receive, send):
                if scope["type"] == "http" and scope["path"] == "/frozen":
                    body = str(gc.get_freeze_count()).encode()
                    await send({"type": "http.response.start", "status": 200, "headers": []})
                    await send({"type": "http.response.body", "body": body})
                else:
                    await application(scope, receive, send)

            serve(app, lifespan="on")
        """)
    )

    deadline = time.monotonic() + 30
    while int(server.get("/frozen").text) < 10_000:
        assert time.monotonic() < deadline, "nothing was frozen"
    assert server.get("/api/v1/sessions").json()["total"] == 0
    server.stop(signal.SIGTERM)


def test_python_m_does_not_see_packages_of_the_folder_where_it_starts(
    start: Start, tmp_path: Path
) -> None:
    """``python -m`` puts that folder first: a program's ``chat`` took the place of the server's."""
    for package in ("chat", "django", "sessions_app"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('not the server')")

    server = start(MOCHI_WORKERS="2", MOCHI_TEST_MODE="true")

    assert server.get("/api/v1/sessions").json()["total"] == 0
    server.stop(signal.SIGTERM)


def test_python_m_runs_the_server_of_a_clone_that_is_not_installed(
    start: Start, tmp_path: Path
) -> None:
    project = copy_of_the_project(tmp_path / "project")
    command = (sys.executable, "-m", "mochi_server", "--port", "0")

    server = start(*command, cwd=project, PYTHONPATH="")

    assert server.get("/api/v1/sessions").json()["total"] == 0
