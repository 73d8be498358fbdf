"""Servers without apps that may be left out, which hold conversations all the same."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from mochi_project.configuration.constants import WINGS

pytestmark = pytest.mark.slow

TOOL = '''
"""Adds numbers."""

__all__ = ["add"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''
ROUTES = {
    "search_app": ["/api/v1/search?q=sum"],
    "transfer_app": ["/api/v1/export"],
    "dialects_app": ["/v1/models", "/api/v1/agui/x", "/api/v1/ui/chat/x/messages"],
    "usage_app": ["/api/v1/usage", "/api/v1/budgets", "/api/v1/metrics"],
}
COMMANDS = {
    "search_app": ["search"],
    "transfer_app": ["backup", "restore"],
    "usage_app": ["usage"],
    "scripted_app": ["scripted_llm"],
    "terminal_app": ["chat", "send"],
}

Script = Callable[..., str]


@pytest.mark.parametrize("off", [*((wing,) for wing in WINGS), WINGS], ids=",".join)
def test_a_server_without_apps_talks_and_calls_tools(
    start: Callable[..., Any], asked: Any, script: Script, off: tuple[str, ...]
) -> None:
    server = start(MOCHI_APPS_OFF=",".join(off), MOCHI_TEST_MODEL_URL=asked.url)
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "sums.py").write_text(TOOL)
    client = server.chat()
    session_id = client.new_session(
        tool_settings={"tools": ["add"], "execution_policy": "never_confirm"}
    )

    call = {"tool_call": [{"name": "add", "args": {"a": 40, "b": 2}}]}
    events = client.say(session_id, script(call, "The sum is 42.", per_request=True))

    (result,) = (event.data for event in events if event.name == "tool_result")
    assert (result["success"], result["result"]) == (True, "42")
    assert client.messages(session_id)[-1]["content"] == "The sum is 42."
    assert client.http.get("/health").json()["apps"] == [name for name in WINGS if name not in off]
    for path in (path for app in off for path in ROUTES.get(app, ())):
        assert answer_of(server, path) == (404, "NOT_FOUND"), path


def answer_of(server: Any, path: str) -> tuple[int, str]:
    answer = httpx.get(f"{server.url}{path}", trust_env=False)
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "details"}
    return answer.status_code, error["code"]


@pytest.mark.parametrize(
    ("app", "command"), [(app, name) for app, names in COMMANDS.items() for name in names]
)
def test_a_command_of_an_app_that_is_left_out_is_unknown(app: str, command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "mochi_server", command],
        env={**os.environ, "MOCHI_APPS_OFF": app},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert f"Unknown command: '{command}'" in ended.stderr


def test_actions_and_help_of_an_app_that_is_left_out_are_gone() -> None:
    off, on = (helped(MOCHI_APPS_OFF=app) for app in ("transfer_app", ""))

    assert {"backup", "restore"} <= on - off
    assert "sessions" in off
    left = actions_of_sessions(MOCHI_APPS_OFF="transfer_app")
    assert left == {"list", "show", "delete", "check"}
    assert actions_of_sessions(MOCHI_APPS_OFF="") - left == {"export", "import", "copy"}


def helped(*words: str, **variables: str) -> set[str]:
    """Return the first words of the lines of help."""
    shown = subprocess.run(
        [sys.executable, "-m", "mochi_server", *words, "--help"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return set(re.findall(r"^ +(\w+) {2,}", shown, re.MULTILINE))


def actions_of_sessions(**variables: str) -> set[str]:
    return helped("sessions", **variables)
