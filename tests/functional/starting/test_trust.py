"""Starting in a folder that somebody else filled: nothing of it runs before a person trusts it."""

import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mochi_project.background.worker_state import WORKER_LOCK_FILE, WorkerState, write_state
from sessions_app.store.holder import Holder
from tests.functional.processes import run_process, start_process
from tests.functional.starting.conftest import clean_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
# As the installed command: `python -m` itself would look for modules in the folder.
SERVER = (sys.executable, "-P", "-m", "mochi_server")
TOOL = '''"""Tools."""
from pathlib import Path
Path(__file__).parents[DEPTH].joinpath("ran-NAME").touch()
__all__ = ["hello"]
def hello() -> str:
    """Say hello."""
    return "hello"
'''
SKILL = '---\ndescription: "Helps."\n---\n\nYou help.\n'
PROGRAM = """
import uvicorn
from mochi_server import create_app

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets=sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"mochi-server listening on http://127.0.0.1:{port}", flush=True)

Server(uvicorn.Config(create_app(), port=0)).run()
"""
WEATHER = """
import os
__all__ = ["look"]
__destructive__ = []
def look() -> str:
    '''Look out.'''
    return str([value for value in os.environ.values() if value in ("sunny", "canary")])
"""
Start = Callable[..., Any]
Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder in which everything that could run leaves a file `ran-...` there."""
    folder = tmp_path / "clone"

    def write(name: str, text: str) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("tools/greet.py", TOOL.replace("DEPTH", "1").replace("NAME", "tool"))
    agent = TOOL.replace("DEPTH", "2").replace("NAME", "agent")
    write("agents/helper/helper.py", agent)
    write("agents/helper/__init__.py", "from .helper import hello\n__all__ = ['hello']\n")
    write("agents/helper/SKILL.md", SKILL)
    server = {"command": "touch", "args": [str(folder / "ran-mcp")]}
    write("mcp.json", json.dumps({"mcpServers": {"eager": server}}))
    write(".env", "MOCHI_HOST=0.0.0.0\nMOCHI_INSECURE_NO_AUTH=true\nMOCHI_MAX_TOOL_ROUNDS=7\n")
    write(".mochi/secret_key", "known-to-somebody-else")
    write(".mochi/queue.sqlite3", "their tasks")
    for module in ("mochi_project/__init__", "mochi_project/workers", "django/__init__"):
        path = folder / "ran-module"
        write(f"{module}.py", f"open({str(path)!r}, 'w')")
    return folder


def findings_in(folder: Path) -> dict[str, str]:
    """Return what doctor finds when it is run in a folder."""
    ended = run_process(
        [*SERVER, "doctor", "--json"], env=clean_environment(), cwd=folder, timeout=60
    )
    found = json.loads(ended.stdout)["findings"]
    return {finding["check"]: finding["detail"] for finding in found}


def ran(clone: Path) -> list[str]:
    return sorted(path.name for path in clone.glob("ran-*"))


def ask_for_everything(server: Any) -> dict[str, Any]:
    paths = ("tools", "agents", "mcp/servers")
    return {path: server.get(f"/api/v1/{path}").json() for path in paths}


def test_nothing_of_a_strange_folder_runs_and_everything_else_works(
    start: Start, clone: Path, run: Run
) -> None:
    server = start(
        *SERVER, "--port", "0", "--workers", "2", cwd=clone, MOCHI_BACKGROUND_WORKER="true"
    )

    found = ask_for_everything(server)

    assert server.url.startswith("http://127.0.0.1:")
    sentence = f"The folder {clone} is not trusted, so nothing of its tools is used"
    assert found["tools"]["groups"].keys() == {"recall"}  # built in
    assert found["tools"]["invalid"][0]["reason"].startswith(sentence)
    assert found["agents"]["agents"]["helper"]["valid"] is False
    assert "mochi-server trust" in found["agents"]["agents"]["helper"]["error_message"]
    assert "mochi-server trust" in found["mcp/servers"]["servers"][0]["error"]
    assert server.get("/api/v1/sessions").json()["total"] == 0
    wait_for_worker(server)
    assert ran(clone) == []
    assert (clone / ".mochi" / "queue.sqlite3").read_text() == "their tasks"
    assert server.stderr.count("is not trusted") == 1

    trusted = run([*SERVER, "trust", str(clone)])

    assert trusted.returncode == 0, trusted.stderr
    assert "hello" in server.get("/api/v1/tools").json()["tools"]
    assert server.get("/api/v1/agents").json()["agents"]["helper"]["valid"] is True


def wait_for_worker(server: Any) -> None:
    deadline = time.monotonic() + 90
    while not server.get("/api/v1/health").json()["worker_alive"]:
        assert time.monotonic() < deadline, "no worker"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "command",
    [
        (sys.executable, str(ROOT / "manage.py"), "runserver", "--noreload", "127.0.0.1:0"),
        (sys.executable, "-P", "-c", PROGRAM),
    ],
    ids=["runserver", "create_app"],
)
def test_every_way_of_starting_says_it_in_the_log(
    start: Start, clone: Path, command: tuple[str, ...]
) -> None:
    server = start(*command, cwd=clone)

    ask_for_everything(server)

    assert ran(clone) == []
    server.stop(signal.SIGTERM)
    assert server.stderr.count("is not trusted") == 1


@pytest.mark.parametrize(
    "command", [("tools", "list"), ("agents", "check"), ("mcp", "check"), ("doctor",)]
)
def test_commands_run_nothing_and_say_it_too(
    run: Run, clone: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    ended = run(["env", "-C", str(clone), *SERVER, *command])

    said = " ".join(f"{ended.stdout} {ended.stderr}".replace("│", " ").split())
    assert ran(clone) == []
    assert "not trusted" in said, said
    assert "Traceback" not in said


def test_tools_of_a_strange_folder_are_not_said_to_lack_anything(run: Run, clone: Path) -> None:
    listed, checked = (
        run(["env", "-C", str(clone), *SERVER, "tools", action]) for action in ("list", "check")
    )

    assert "__all__" not in checked.stdout
    assert "greet.py" not in checked.stdout
    assert f"  invalid  tools: The folder {clone} is not trusted" in checked.stdout
    assert f"tools: The folder {clone} is not trusted" in listed.stderr


def test_a_named_data_folder_is_trusted_and_its_dotenv_read_where_it_is_started(
    start: Start, clone: Path
) -> None:
    server = start(*SERVER, "--port", "0", "--host", "127.0.0.1", "--data-dir", ".", cwd=clone)

    assert "hello" in server.get("/api/v1/tools").json()["tools"]
    assert "not trusted" not in server.stderr


def test_what_init_writes_is_trusted(start: Start, run: Run, tmp_path: Path) -> None:
    assert run([*SERVER, "init"]).returncode == 0

    server = start(*SERVER, "--port", "0", cwd=tmp_path)

    assert "add_numbers" in server.get("/api/v1/tools").json()["tools"]
    assert "trust" not in server.stderr


def test_init_trusts_nothing_that_was_there_before(run: Run, clone: Path) -> None:
    assert run([*SERVER, "init", str(clone)]).returncode == 0

    assert json.loads(run([*SERVER, "trust", "--list", "--json"]).stdout) == {"folders": {}}


def test_init_says_how_to_trust_what_was_there_before(run: Run, clone: Path) -> None:
    said = run([*SERVER, "init", str(clone)]).stdout

    assert f"`mochi-server trust {clone}`" in said


def test_init_says_of_a_trusted_folder_that_it_changed(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    run([*SERVER, "init", str(folder)])
    (folder / "tools" / "mine.py").write_text("__all__ = []\n")

    said = run([*SERVER, "init", str(folder)]).stdout

    assert (
        "This folder is trusted, but something in it changed since: look at it, then run " in said
    )
    assert f"`mochi-server trust {folder}`." in said
    assert "uses nothing" not in said


def test_doctor_says_once_what_to_do_about_a_strange_folder(run: Run, clone: Path) -> None:
    ended = run(["env", "-C", str(clone), *SERVER, "doctor", "--json"])

    found = {finding["check"]: finding for finding in json.loads(ended.stdout)["findings"]}
    assert ended.stdout.count("run `mochi-server trust") == 1
    for check in ("agents", "tools", "MCP servers"):
        assert found[check]["state"] == "note"
        assert found[check]["detail"] == "not used, because the folder is not trusted"


def test_a_fresh_folder_asks_nothing_and_keeps_its_data(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    folder.mkdir()
    for _ in range(2):
        server = start(*SERVER, "--test-mode", "--port", "0", cwd=folder)
        assert server.get("/api/v1/sessions").status_code == 200
        server.stop()
        assert server.stderr == ""


def test_doctor_in_a_folder_that_a_server_was_started_on_finds_its_worker(
    start: Start, tmp_path: Path
) -> None:
    named = {"MOCHI_BACKGROUND_WORKER": "true", "MOCHI_TEST_MODE": "true"}
    server = start(*SERVER, "--port", "0", "--data-dir", "data", **named)
    while not server.get("/api/v1/health").json()["worker_alive"]:
        assert server.process.poll() is None
        time.sleep(0.1)

    found = findings_in(tmp_path / "data")

    assert found["trust"] == "nothing waits for a decision"
    assert found["worker"] == f"running, kept by process {server.process.pid}"


def test_doctor_finds_the_worker_of_a_start_that_named_a_strange_folder(clone: Path) -> None:
    holder = Holder.take(clone / ".mochi" / WORKER_LOCK_FILE)
    assert holder
    write_state(holder, WorkerState(phase="running", keeper=1))

    found = findings_in(clone)

    holder.release()
    assert "is not trusted" in found["trust"]
    assert found["worker"] == "running, kept by process 1"


def test_trust_is_listed_and_taken_back(run: Run, clone: Path) -> None:
    run([*SERVER, "trust", str(clone)])
    listed = json.loads(run([*SERVER, "trust", "--list", "--json"]).stdout)["folders"]
    revoked = run([*SERVER, "trust", "--revoke", str(clone)])

    assert listed[str(clone)]["trusted"] is True
    assert "not trusted any more" in revoked.stdout
    assert "No folder yet" in run([*SERVER, "trust", "--list"]).stdout
    assert run([*SERVER, "trust", str(clone / "nowhere")]).returncode == 1


class Terminal:
    """A server with a person in front of it: stdin and stderr are a terminal."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = start_process(
            [*SERVER, "--port", "0"], cwd=folder, env=environment, stdin=theirs, stderr=theirs
        )
        os.close(theirs)
        self.seen = ""

    def read_until(self, text: str) -> str:
        while text not in self.seen:
            readable, _, _ = select.select([self._ours], [], [], 30)
            assert readable, self.seen
            self.seen += os.read(self._ours, 4096).decode()
        return self.seen

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def url(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().rpartition(" ")[2].strip()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self._ours)


@pytest.fixture
def terminal(clone: Path) -> Iterator[Callable[[], Terminal]]:
    opened: list[Terminal] = []
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}

    def open_terminal() -> Terminal:
        environment = {**kept, "PYTHONPATH": str(ROOT), "MOCHI_BACKGROUND_WORKER": "false"}
        opened.append(Terminal(clone, environment))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


def test_on_a_terminal_the_start_asks_before_it_reads_anything(
    clone: Path, terminal: Callable[[], Terminal]
) -> None:
    first = terminal()
    question = first.read_until("[y/N]")
    first.type("y\n")

    assert "sets MOCHI_HOST" in question
    assert "greet.py" in question
    assert first.url().startswith("http://0.0.0.0:")  # as its .env says

    second = terminal()
    assert second.url().startswith("http://0.0.0.0:")
    assert "[y/N]" not in second.seen


def test_tools_get_the_variables_of_the_file_once_its_folder_is_trusted(tmp_path: Path) -> None:
    data, here = tmp_path / "data", tmp_path / "here"
    (data / "tools").mkdir(parents=True)
    (data / "tools" / "weather.py").write_text(WEATHER)
    here.mkdir()
    (here / ".env").write_text(
        "WEATHER_KEY=sunny\nOPENAI_API_KEY=canary\nMOCHI_X=canary\nLD_X=canary\n"
    )

    def seen() -> str:
        command = [*SERVER, "--data-dir", str(data), "tools", "run", "look"]
        return run_process(command, env=clean_environment(), cwd=here, timeout=60).stdout

    before = seen()
    run_process([*SERVER, "trust", str(here)], env=clean_environment(), cwd=here, timeout=60)

    assert before == "[]\n"
    assert seen() == "['sunny']\n"
