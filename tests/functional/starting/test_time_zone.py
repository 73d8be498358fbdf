"""The machine's time zone: the server and its tools see it, and old times are read in it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow

Start = Callable[..., Any]
MODEL = "qwen3:14b"
CLOCK = '''
import time

__all__ = ["zone"]


def zone() -> str:
    """Return the name of the time zone, and its offset."""
    return f"{time.tzname[0]} {time.strftime('%z')}"
'''
ASK = (
    "<|instruction_start|>"
    + json.dumps(
        {
            "per_request": True,
            "messages": [
                {"tool_call": [{"name": "zone", "args": {}}]},
                {"text_message": {"length": 1}},
            ],
        }
    )
    + "<|instruction_end|>"
)
OLD = {
    "metadata": {
        "session_id": "0123456789",
        "model": MODEL,
        "created_at": "2025-01-15T10:30:00",
        "updated_at": "2025-01-15T10:30:00.000000",
        "message_count": 0,
    },
    "messages": [],
}


@pytest.fixture
def server(start: Start, tmp_path: Path) -> Any:
    """Return a server in a zone 5:45 east of Greenwich, with a tool and an old session."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "clock.py").write_text(CLOCK)
    (tmp_path / "chat_sessions").mkdir()
    (tmp_path / "chat_sessions" / "0123456789.json").write_text(json.dumps(OLD))
    command = [sys.executable, "-m", "mochi_server", "--test-mode", "--port", "0"]
    return start(*command, "--data-dir", str(tmp_path), TZ="Asia/Kathmandu")


def test_naive_times_of_old_files_are_local_under_the_server(server: Any) -> None:
    session = server.get("/api/v1/sessions/0123456789").json()
    assert session["created_at"] == "2025-01-15T04:45:00.000000+00:00"


def test_a_tool_that_is_asked_for_the_time_answers_in_the_zone_of_the_machine(server: Any) -> None:
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=60, trust_env=False) as client:
        settings = {"tools": ["zone"], "execution_policy": "never_confirm"}
        session = client.post("/sessions", json={"model": MODEL, "tool_settings": settings}).json()
        answer = client.post(f"/chat/{session['session_id']}", json={"message": ASK}).json()
    (call,) = answer["tool_calls_executed"]
    assert call["result"] == "+0545 +0545"
