"""``manage.py doctor``: says what works, what does not, and fails when something essential is."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import keep
from sessions_app.attachments.session_directories import SessionDirectories
from tests.object_server import KEYS, REGION, ObjectServer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
DOCTOR = (sys.executable, str(ROOT / "manage.py"), "doctor")
Run = Callable[..., Any]


@pytest.fixture
def nobody() -> str:
    """Return a URL at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def findings(ended: Any) -> dict[str, dict[str, str]]:
    return {finding["check"]: finding for finding in json.loads(ended.stdout)["findings"]}


def test_an_unreachable_ollama_is_broken_and_says_what_to_do(run: Run, nobody: str) -> None:
    ended = run([*DOCTOR, "--json"], MOCHI_OLLAMA_HOST=nobody)

    found = findings(ended)
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["healthy"] is False
    assert found["Ollama"]["state"] == "broken"
    assert "ollama serve" in found["Ollama"]["detail"]
    assert found["data directory"]["state"] == "ok"


def test_sessions_that_use_files_and_are_not_there_are_named(run: Run, tmp_path: Path) -> None:
    sessions = tmp_path / "chat_sessions"
    sessions.mkdir()
    directories = SessionDirectories(tmp_path / "attachments", [sessions])
    store = FileAttachmentStore(tmp_path / "attachments", note_use=directories.note)
    keep(store, b"a text", name=None, max_bytes=100)
    environment = {"MOCHI_TEST_MODE": "true", "MOCHI_DATA_DIR": str(tmp_path)}
    assert findings(run([*DOCTOR, "--json"], **environment))["attachments"]["state"] == "ok"
    sessions.rename(tmp_path / "volume")

    left = findings(run([*DOCTOR, "--json"], **environment))["attachments"]

    assert left["state"] == "note"
    assert f"{sessions} ({tmp_path / 'attachments' / '.sessions'}/" in left["detail"]


def test_a_broken_line_of_dotenv_is_a_finding(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OTHER=1\nnot a pair\n")

    ended = run([*DOCTOR, "--json"], MOCHI_TEST_MODE="true", MOCHI_DATA_DIR=str(tmp_path))

    found = findings(ended)["configuration"]
    expected = f"line 2 of {tmp_path}/.env is not NAME=VALUE and is ignored"
    assert (found["state"], found["detail"]) == ("note", expected)
    assert ended.stderr == ""


def test_broken_files_are_counted_and_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "chat_sessions").mkdir()
    (tmp_path / "chat_sessions" / "0123456789.json").write_text("{")
    turns = tmp_path / ".mochi" / "turns" / "9876543210"
    turns.mkdir(parents=True)
    (turns / "0199f3a2b4c50000abcd.lines.broken").write_text("garbage")
    (turns / "0199f3a2b4c60000abcd.jsonl").write_text('{"n":1,"event":"turn_started","data":{}}\n')

    ended = run([*DOCTOR, "--json"], MOCHI_TEST_MODE="true", MOCHI_DATA_DIR=str(tmp_path))

    assert ended.returncode == 0, ended.stdout
    assert findings(ended)["sessions"]["state"] == "note"
    assert "0123456789.json" in findings(ended)["sessions"]["detail"]
    left = findings(ended)["turns"]
    assert left["state"] == "note"
    assert "0199f3a2b4c50000abcd.lines.broken" in left["detail"]
    assert "wait for sessions that are not in" in left["detail"]
    assert "9876543210" in left["detail"]


def test_images_and_files_are_compared_with_their_names(run: Run, tmp_path: Path) -> None:
    services = {"MOCHI_TEST_MODE": "true", "MOCHI_DATA_DIR": str(tmp_path)}
    kept = [
        keep(FileAttachmentStore(tmp_path / "attachments"), data, name=None, max_bytes=100)
        for data in (b"whole", b"damaged")
    ]
    doctored = findings(run([*DOCTOR, "--json"], **services))["attachments"]
    assert (doctored["state"], doctored["detail"][:7]) == ("ok", "2 files")
    damaged = kept[1].id.removeprefix("sha256:")
    (tmp_path / "attachments" / damaged[:2] / damaged).write_bytes(b"tampered")
    doctored = findings(run([*DOCTOR, "--json"], **services))["attachments"]
    assert doctored["state"] == "note"
    assert kept[1].id in doctored["detail"]
    assert kept[0].id not in doctored["detail"]


def test_a_table_crops_no_name_of_a_file(run: Run, tmp_path: Path) -> None:
    turns = tmp_path / "a_folder_with_a_long_name" / ".mochi" / "turns" / "9876543210"
    turns.mkdir(parents=True)
    (turns / "0199f3a2b4c50000abcd.lines.broken").write_text("garbage")

    ended = run(DOCTOR, MOCHI_TEST_MODE="true", MOCHI_DATA_DIR=str(turns.parents[2]))

    cells = [line.split("│")[3].strip() for line in ended.stdout.splitlines() if "│" in line]
    assert str(turns / "0199f3a2b4c50000abcd.lines.broken") in "".join(cells)


def test_tools_that_can_not_be_offered_are_named_with_the_reason(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "mail.py").write_text('__all__ = ["send"]\ndef send(): pass\n')

    ended = run([*DOCTOR, "--json"], MOCHI_TEST_MODE="true", MOCHI_DATA_DIR=str(tmp_path))

    tools = findings(ended)["tools"]
    assert ended.returncode == 0, ended.stdout
    assert tools["state"] == "note"
    assert "send: It has no docstring" in tools["detail"]


def test_a_broken_mcp_configuration_is_named_and_no_server_is_started(
    run: Run, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    servers = {"eager": {"command": "touch", "args": [str(started)]}, "odd": {}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    ended = run([*DOCTOR, "--json"], MOCHI_TEST_MODE="true", MOCHI_DATA_DIR=str(tmp_path))

    found = findings(ended)["MCP servers"]
    assert found["state"] == "note"
    assert found["detail"].startswith("odd: ")
    assert not started.exists()


def test_a_data_directory_that_can_not_be_used_is_broken(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")

    ended = run([*DOCTOR, "--json"], MOCHI_TEST_MODE="true", MOCHI_DATA_DIR="data")

    assert ended.returncode == 1
    assert findings(ended)["data directory"]["state"] == "broken"


def test_people_get_a_table(run: Run) -> None:
    ended = run(DOCTOR, MOCHI_TEST_MODE="true", MOCHI_PROT="1")

    assert ended.returncode == 0, ended.stderr
    assert "data directory" in ended.stdout
    assert "did you mean MOCHI_PORT?" in " ".join(ended.stdout.split())


def test_a_file_system_that_can_not_hold_the_data_is_broken(run: Run, tmp_path: Path) -> None:
    """As exFAT is: no links of either kind."""
    (tmp_path / "exfat").mkdir()
    (tmp_path / "exfat" / "sitecustomize.py").write_text(
        "import errno, os\n"
        "def refuse(*_, **__): raise OSError(errno.EPERM, os.strerror(errno.EPERM))\n"
        "os.link = os.symlink = refuse\n"
    )
    path = f"{tmp_path / 'exfat'}:{ROOT}"
    data = str(tmp_path / "data")

    found = run([*DOCTOR, "--json"], MOCHI_TEST_MODE="true", MOCHI_DATA_DIR=data, PYTHONPATH=path)
    started = run(
        [sys.executable, "-m", "mochi_server", "--port", "0"], MOCHI_DATA_DIR=data, PYTHONPATH=path
    )

    assert found.returncode == 1
    assert findings(found)["data directory"]["state"] == "broken"
    assert "hard links (operation not permitted)" in findings(found)["data directory"]["detail"]
    assert started.returncode == 1
    assert "can't hold mochi-server's data safely" in started.stderr
    assert len(started.stderr.splitlines()) == 1


@pytest.fixture
def vendor() -> Iterator[dict[str, str]]:
    """Variables that make OpenAI a scripted server."""
    command = (sys.executable, str(ROOT / "manage.py"), "scripted_llm")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        url = server.stdout.readline().rpartition("OpenAI: ")[2].strip().rstrip(")")
        yield {
            "MOCHI_PROVIDERS__OPENAI__BASE_URL": url,
            "MOCHI_PROVIDERS__OPENAI__API_KEY_ENV": "SOME_KEY",
            "SOME_KEY": "sk-secret",
        }
        server.terminate()


def test_an_ollama_that_is_not_used_is_not_broken(run: Run, vendor: dict[str, str]) -> None:
    ended = run([*DOCTOR, "--json"], **vendor)

    found = findings(ended)
    assert ended.returncode == 0, ended.stdout
    assert found["Ollama"]["state"] == "note"
    assert found["provider openai"]["state"] == "ok"
    assert "with the key in SOME_KEY: openai:qwen3:14b" in found["provider openai"]["detail"]
    assert "sk-secret" not in ended.stdout
    assert "ANTHROPIC_API_KEY" in found["other providers"]["detail"]


def test_an_ollama_that_is_configured_is_broken_when_it_is_silent(
    run: Run, vendor: dict[str, str], nobody: str
) -> None:
    ended = run([*DOCTOR, "--json"], **vendor, MOCHI_OLLAMA_HOST=nobody)

    assert ended.returncode == 1
    assert findings(ended)["Ollama"]["state"] == "broken"


def test_a_configured_provider_that_is_silent_is_broken(
    run: Run, vendor: dict[str, str], nobody: str
) -> None:
    away = {**vendor, "MOCHI_PROVIDERS__OPENAI__BASE_URL": nobody}
    ended = run([*DOCTOR, "--json"], **away)

    assert ended.returncode == 1
    assert "No connection to 'openai'" in findings(ended)["provider openai"]["detail"]
    no_key = findings(run([*DOCTOR, "--json"], **{**away, "SOME_KEY": ""}))
    assert no_key["provider openai"]["detail"] == "there is no key: set SOME_KEY"


def test_a_node_of_several_is_checked_with_what_it_shares(
    run: Run, tmp_path: Path, redis_server: str
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "dates.py").write_text("")

    ended = run(
        [*DOCTOR, "--json"],
        MOCHI_DATA_DIR=str(tmp_path),
        MOCHI_TEST_MODE="true",
        MOCHI_JOURNAL_URL=redis_server,
        MOCHI_SECRET_KEY="0" * 32,
    )

    said = json.loads(ended.stdout)["findings"]
    of_journal = [finding["detail"] for finding in said if finding["check"] == "journal"]
    assert "appendonly is off" in of_journal[0]
    assert redis_server in of_journal[1]
    found = findings(ended)
    assert found["clock"]["state"] == "ok"
    assert "mochi-server qcluster" in found["workers"]["detail"]
    assert "agents none" in found["this node"]["detail"]
    assert "worker" not in found


def test_a_journal_that_can_not_be_reached_is_broken(run: Run, tmp_path: Path) -> None:
    ended = run(
        [*DOCTOR, "--json"],
        MOCHI_DATA_DIR=str(tmp_path),
        MOCHI_TEST_MODE="true",
        MOCHI_JOURNAL_URL="redis://:hunter2@127.0.0.1:1",
        MOCHI_SECRET_KEY="0" * 32,
    )

    assert ended.returncode == 1
    assert findings(ended)["journal"]["state"] == "broken"
    assert "hunter2" not in ended.stdout + ended.stderr


def test_what_is_broken_keeps_no_other_check_from_being_made(run: Run, tmp_path: Path) -> None:
    private = tmp_path / ".mochi"
    private.mkdir()
    for wrong in (tmp_path / "chat_sessions", private / "turns", tmp_path / "attachments"):
        wrong.write_text("a file in the place of a directory")
    for wrong in (tmp_path / "mcp.json", tmp_path / "budgets.json", private / "secret_key"):
        wrong.mkdir()
    (tmp_path / "prices.json").write_text('{"a": [}')
    for loop in ("tools", "agents", "system_prompts", ".mochi/summaries"):
        (tmp_path / loop).symlink_to(tmp_path / loop)

    ended = run([*DOCTOR, "--json"], MOCHI_TEST_MODE="true", MOCHI_DATA_DIR=str(tmp_path))

    assert ended.returncode == 1, ended.stderr
    found = findings(ended)
    broken = {name for name, finding in found.items() if finding["state"] == "broken"}
    assert {"data directory", "turns", "budgets", "summaries"} <= broken
    assert {"sessions", "attachments", "system prompts", "agents", "tools"} <= found.keys()
    assert {"search", "usage", "prices", "models", "MCP servers", "worker"} <= found.keys()
    assert found["prices"]["state"] == found["MCP servers"]["state"] == "note"
    assert "Traceback" not in ended.stderr


@pytest.fixture
def missing_bucket(object_url: str, object_server: ObjectServer) -> dict[str, str]:
    """Variables of a node whose bucket was not made."""
    url = f"s3://nothing/sessions?endpoint={object_server.url}&region={REGION}"
    return {**KEYS, "MOCHI_SESSIONS_URL": url, "MOCHI_SECRET_KEY": "0" * 32}


def test_a_missing_bucket_and_a_journal_that_is_away_are_two_lines_of_many(
    run: Run, missing_bucket: dict[str, str]
) -> None:
    away = {**missing_bucket, "MOCHI_JOURNAL_URL": "redis://127.0.0.1:1"}

    ended = run([*DOCTOR, "--json"], **away, MOCHI_TEST_MODE="true")

    assert ended.returncode == 1, ended.stderr
    found = findings(ended)
    assert found["journal"]["state"] == found["sessions' store"]["state"] == "broken"
    assert "no bucket for s3://nothing/sessions/" in found["sessions' store"]["detail"]
    assert {"sessions", "search", "usage", "models", "tools", "this node"} <= found.keys()


def test_a_missing_bucket_stops_the_start_in_a_sentence(
    run: Run, missing_bucket: dict[str, str], redis_server: str
) -> None:
    ended = run(
        [sys.executable, "-m", "mochi_server", "--port", "0"],
        **missing_bucket,
        MOCHI_TEST_MODE="true",
        MOCHI_JOURNAL_URL=redis_server,
    )

    assert ended.returncode != 0
    assert "MOCHI_SESSIONS_URL: There is no bucket for s3://nothing/sessions/" in ended.stderr
    assert "make it first, or correct its name" in ended.stderr
    assert "Traceback" not in ended.stderr
