"""``manage.py doctor``: says what works, what does not, and fails when something essential is."""

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_broken_files_are_counted_and_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "chat_sessions").mkdir()
    (tmp_path / "chat_sessions" / "0123456789.json").write_text("{")

    ended = run([*DOCTOR, "--json"], MOCHI_TEST_MODE="true", MOCHI_DATA_DIR=str(tmp_path))

    assert ended.returncode == 0, ended.stdout
    assert findings(ended)["sessions"]["state"] == "note"
    assert "0123456789.json" in findings(ended)["sessions"]["detail"]


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
