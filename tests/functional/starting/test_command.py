"""``mochi-server`` as a person starts it, and as they stop it."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from mochi_project.cli import commands
from tests.functional.starting.conftest import ROOT, clean_environment

pytestmark = pytest.mark.slow

SERVER = (sys.executable, "-m", "mochi_server", "--port", "0")
Start = Callable[..., Any]


def wait_until_idle(*processes: psutil.Process) -> None:
    """Wait until the processes have warmed up, with a pause in it: half a second without work."""

    def spent() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    before = -1.0
    while (now := spent()) > before + 0.05:
        before = now
        time.sleep(0.5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_idle_server_waits_for_nothing_and_stops_silently(
    start: Start, workers: str, number: signal.Signals
) -> None:
    server = start(*SERVER, "--workers", workers, "--data-dir", "data")
    assert server.get("/api/v1/health").status_code == 200
    family = psutil.Process(server.process.pid).children(recursive=True)
    wait_until_idle(psutil.Process(server.process.pid), *family)

    server.stop(number)

    assert server.process.returncode == 0
    assert "Traceback" not in server.stderr
    assert not [process for process in family if process.is_running()]


def test_the_listening_line_comes_once_and_people_read_the_rest(start: Start) -> None:
    server = start(*SERVER, "--data-dir", "data", "--ollama-host", "http://gpu.example:9999")
    server.stop()

    lines = server.printed + server.process.stdout.read().splitlines()

    assert sum(line.startswith("mochi-server listening") for line in lines) == 1
    assert f"  docs    {server.url}/api/v1/docs" in lines
    assert "  models  http://gpu.example:9999" in lines
    assert "token" not in "".join(lines)


def test_two_workers_answer_as_one_and_share_their_secret(start: Start, tmp_path: Path) -> None:
    server = start(*SERVER, "--workers", "2", "--data-dir", "data", has_zygote=True)

    assert {server.get("/api/v1/health").status_code for _ in range(20)} == {200}
    secret = tmp_path / "data" / ".mochi" / "secret_key"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert [entry.name for entry in secret.parent.glob("*secret_key*")] == ["secret_key"]


def test_a_worker_that_dies_is_replaced(start: Start) -> None:
    server = start(*SERVER, "--workers", "2", "--data-dir", "data")
    parent = psutil.Process(server.process.pid)
    first, second = parent.children()

    first.kill()
    first.wait(timeout=60)

    # The survivor goes on, and the listening sockets never close.
    assert server.get("/api/v1/health").status_code == 200
    while len(parent.children()) < 2:
        time.sleep(0.02)
    assert second in parent.children()
    assert server.get("/api/v1/health").status_code == 200


def test_workers_end_when_their_parent_is_killed(start: Start) -> None:
    server = start(*SERVER, "--workers", "2", "--data-dir", "data")
    workers = psutil.Process(server.process.pid).children()

    server.stop(signal.SIGKILL)

    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive


def test_a_wrong_value_stops_the_start_with_a_sentence(run: Callable[..., Any]) -> None:
    ended = run(SERVER[:3], MOCHI_PORT="abc")

    assert ended.returncode == 1
    assert ended.stderr == "mochi-server: MOCHI_PORT must be a valid integer (it is 'abc')\n"
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("missing", "also_set"), [("SECRET_KEY", {}), ("API_TOKEN", {"MOCHI_SECRET_KEY": "0" * 32})]
)
def test_a_node_of_several_starts_with_the_secrets_that_all_have(
    run: Callable[..., Any], missing: str, also_set: dict[str, str]
) -> None:
    ended = run(
        [*SERVER, "--workers", "2", "--host", "0.0.0.0", "--data-dir", "data"],
        MOCHI_JOURNAL_URL="redis://127.0.0.1:1",
        **also_set,
    )

    assert ended.returncode == 1
    assert ended.stderr.startswith(f"mochi-server: MOCHI_{missing} must be set with MOCHI_JOURNAL")
    assert len(ended.stderr.splitlines()) == 1


def test_a_port_in_use_stops_the_start_with_a_sentence(run: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run([*SERVER[:3], "--port", port])

    assert ended.returncode == 1
    assert ended.stderr.startswith(f"mochi-server: port {port} on 127.0.0.1 is in use")
    assert len(ended.stderr.splitlines()) == 1


def test_a_data_directory_that_is_a_file_stops_the_start(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("not a directory")

    ended = run([*SERVER, "--data-dir", "data"])

    assert ended.returncode == 1
    assert ended.stderr.startswith("mochi-server: MOCHI_DATA_DIR")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", [[], ["send", "new", "Hello"], ["sessions", "list"]])
def test_a_data_directory_that_can_not_be_made_is_told_in_a_sentence(
    run: Callable[..., Any], command: list[str]
) -> None:
    ended = run([*SERVER[:3], *command], MOCHI_DATA_DIR="/proc/nope")

    assert ended.returncode == 1
    assert ended.stderr.startswith("mochi-server: MOCHI_DATA_DIR /proc/nope can't be used: ")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["secret_key", "api_token"])
@pytest.mark.parametrize(
    "command",
    [
        SERVER,
        (sys.executable, "-m", "uvicorn", "--port", "0", "mochi_project.asgi:application"),
    ],
    ids=["mochi-server", "uvicorn"],
)
def test_a_secret_that_somebody_else_may_have_written_stops_the_start(
    run: Callable[..., Any], tmp_path: Path, name: str, command: tuple[str, ...]
) -> None:
    state = tmp_path / "data" / ".mochi"
    state.mkdir(parents=True)
    (state / name).write_text("a secret")
    (state / name).chmod(0o666)

    ended = run(command, MOCHI_DATA_DIR=str(tmp_path / "data"))

    assert ended.returncode != 0
    assert f"{state / name} can be written by other users, and a secret is read" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "a secret\n" not in ended.stderr


def test_a_mistyped_variable_is_pointed_out_once(start: Start) -> None:
    command = (*SERVER, "--workers", "2", "--data-dir", "data")
    server = start(*command, has_zygote=True, MOCHI_OLLAMA_HOTS="x")
    server.stop()

    assert server.stderr.count("did you mean MOCHI_OLLAMA_HOST?") == 1


def test_a_mistyped_variable_in_a_file_is_pointed_out_too(start: Start, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MOCHI_POTR=9000\nOTHER=1\n")
    server = start(*SERVER, "--data-dir", ".")
    server.stop()

    assert server.stderr.count("did you mean MOCHI_PORT?") == 1
    assert "OTHER" not in server.stderr


def test_a_broken_line_of_a_file_is_pointed_out_once(start: Start, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OTHER=1\n\nnot a pair\n")
    command = (*SERVER, "--workers", "2", "--data-dir", ".")
    server = start(*command, has_zygote=True)
    server.stop()

    warning = f"mochi-server: warning: line 3 of {tmp_path}/.env is not NAME=VALUE and is ignored"
    assert server.stderr.count(warning) == 1
    assert server.stderr.count("NAME=VALUE") == 1
    assert "dotenv could not" not in server.stderr


def test_beyond_loopback_a_token_is_made_printed_and_asked_for(
    start: Start, tmp_path: Path
) -> None:
    server = start(*SERVER, "--host", "0.0.0.0", "--data-dir", "data")
    server.url = server.url.replace("0.0.0.0", "127.0.0.1")
    token_file = tmp_path / "data" / ".mochi" / "api_token"
    token = token_file.read_text()

    assert server.get("/api/v1/health").status_code == 200
    assert server.get("/api/v1/sessions").status_code == 401
    assert server.get("/api/v1/sessions", Authorization=f"Bearer {token}").status_code == 200
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    server.stop()
    assert token in server.process.stdout.read()
    assert token not in server.stderr


def test_beyond_loopback_without_auth_there_is_a_warning(start: Start) -> None:
    server = start(*SERVER, "--host", "0.0.0.0", "--insecure-no-auth", "--data-dir", "data")
    server.url = server.url.replace("0.0.0.0", "127.0.0.1")

    assert server.get("/api/v1/sessions").status_code == 200
    assert "warning: everyone who can reach" in server.stderr


def test_a_renamed_variable_is_read_and_told_of_once(start: Start) -> None:
    server = start(
        *SERVER,
        "--workers",
        "2",
        has_zygote=True,
        MOCHI_BACKGROUND_WORKER="",
        MOCHI_WORKER="false",
        MOCHI_WORKRE="1",
    )

    server.stop()

    assert server.stderr.count("MOCHI_WORKER is now named MOCHI_BACKGROUND_WORKER") == 1
    assert server.stderr.count("MOCHI_WORKRE is not a setting") == 1


def test_test_mode_leaves_nothing_behind(start: Start, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    empty = tmp_path / "empty"
    empty.mkdir()

    command = (*SERVER, "--test-mode", "--workers", "2")
    server = start(*command, cwd=empty, has_zygote=True, TMPDIR=str(temporary))
    (data,) = temporary.iterdir()
    assert (data / ".mochi" / "secret_key").exists()
    assert server.get("/api/v1/models").status_code == 200
    server.stop(signal.SIGTERM)

    assert os.listdir(temporary) == []
    assert os.listdir(empty) == []


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_touch_nothing(run: Callable[..., Any], tmp_path: Path, flag: str) -> None:
    assert run([*SERVER[:3], flag]).returncode == 0
    assert os.listdir(tmp_path) == []


def test_an_import_makes_the_data_directory_and_a_dry_run_does_not(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    said = {"role": "user", "content": "Hello", "timestamp": "2026-11-01T10:00:00Z"}
    session = {"session_id": "0123456789", "metadata": {"model": "qwen3:14b"}, "messages": [said]}
    (tmp_path / "one.json").write_text(json.dumps(session))
    importing = [*SERVER[:3], "--data-dir", "new", "sessions", "import", "one.json"]
    importing += ["--model", "qwen3:14b"]

    tried = run([*importing, "--dry-run"])
    there = os.path.lexists(tmp_path / "new")
    taken = run(importing)

    assert (tried.returncode, there) == (1, False)
    assert taken.returncode == 0, taken.stderr
    assert len(list((tmp_path / "new" / "chat_sessions").glob("*.json"))) == 1


def test_a_command_runs_with_the_servers_flags(run: Callable[..., Any], tmp_path: Path) -> None:
    assert run([*SERVER[:3], "--data-dir", "data", "init"]).returncode == 0
    shown = run([*SERVER[:3], "--data-dir", "data", "prompts", "show", "helpful.md"])

    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == (tmp_path / "data" / "system_prompts" / "helpful.md").read_text()


def test_a_command_that_is_not_there_is_refused_before_anything_starts(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    ended = run([*SERVER[:3], "innit"])

    assert ended.returncode == 2
    assert "there is no command 'innit'" in ended.stderr
    assert os.listdir(tmp_path) == []


def test_a_misspelt_command_is_pointed_out(run: Callable[..., Any]) -> None:
    assert "did you mean init?" in run([*SERVER[:3], "innit"]).stderr
    assert "--help` lists them" in run([*SERVER[:3], "zzz"]).stderr


def test_a_misspelt_flag_is_pointed_out(run: Callable[..., Any], tmp_path: Path) -> None:
    ended = run([*SERVER[:3], "--prot", "9000"])

    assert ended.returncode == 2
    assert "there is no flag --prot; did you mean --port?" in ended.stderr
    assert os.listdir(tmp_path) == []


def test_help_lists_every_command_with_a_line(run: Callable[..., Any]) -> None:
    shown = run([*SERVER[:3], "--help"]).stdout

    for name, line in commands().items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    "program",
    [SERVER[:3], (sys.executable, str(ROOT / "manage.py"))],
    ids=["mochi-server", "manage"],
)
def test_a_command_points_out_a_mistyped_variable(
    run: Callable[..., Any], tmp_path: Path, program: tuple[str, ...]
) -> None:
    (tmp_path / ".env").write_text("MOCHI_POTR=9000\nnot a pair\n")
    ended = run([*program, "prompts", "list"], MOCHI_DATA_DIR=".", MOCHI_WORKRES="2")

    assert ended.returncode == 0
    assert ended.stderr.count(f"line 2 of {tmp_path}/.env is not NAME=VALUE") == 1
    assert "dotenv could not" not in ended.stderr
    assert ended.stderr.count("did you mean MOCHI_PORT?") == 1
    assert ended.stderr.count("did you mean MOCHI_WORKERS?") == 1


def test_uvicorns_own_command_points_out_a_mistyped_variable_in_a_file(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("MOCHI_POTR=9000\n")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-m", "uvicorn", "mochi_project.asgi:application", "--port", port]
    stderr = tmp_path / "stderr"
    with stderr.open("w") as file:
        server = subprocess.Popen(
            command, cwd=tmp_path, env=clean_environment(MOCHI_DATA_DIR="."), stderr=file
        )
    try:
        wait_for(stderr, "did you mean MOCHI_PORT?", server)
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_start_without_a_reachable_model_says_so_in_one_line(start: Start, workers: str) -> None:
    command = (*SERVER, "--workers", workers, "--data-dir", "data")
    server = start(*command, has_zygote=workers == "2", MOCHI_OLLAMA_HOST="127.0.0.1:9")
    wait_for(server.stderr_file, "no model can be reached", server.process)
    server.stop()

    assert server.stderr.count("no model can be reached: Ollama does not answer at") == 1


def test_a_start_with_a_key_asks_nobody(start: Start) -> None:
    server = start(
        *SERVER, "--data-dir", "data", MOCHI_OLLAMA_HOST="127.0.0.1:9", OPENAI_API_KEY="sk-x"
    )
    assert server.get("/api/v1/health").status_code == 200
    wait_until_idle(psutil.Process(server.process.pid))
    server.stop()

    assert "no model can be reached" not in server.stderr


def wait_for(file: Path, text: str, process: Any) -> None:
    """Wait until a process has written a text to a file."""
    while text not in file.read_text():
        assert process.poll() is None, file.read_text()
        time.sleep(0.05)
