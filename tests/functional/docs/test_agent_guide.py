"""The agent of docs/agents.md works as the page says."""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.conftest import NO_TLS
from tests.functional.processes import run_process

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/agents.md").read_text()
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
COMMAND = re.compile(r"<!-- example: command -->\n```sh\n(.*?)```\n\n```\n(.*?)```\n", re.DOTALL)
REQUEST = re.compile(r"<!-- example: request -->\n```sh\n(.*?)```\n", re.DOTALL)
STREAM = re.compile(r"<!-- output: stream -->\n```\n(.*?)```\n", re.DOTALL)
CHANGING = re.compile(
    r'call_[0-9a-f]{8}|\b[0-9a-f]{10}\b|(?<="execution_time_ms":)[0-9.]+|(?<="instruction":)".*"'
)


def block(*messages: dict[str, Any]) -> str:
    said = json.dumps({"per_request": True, "messages": messages})
    return f"<|instruction_start|>{said}<|instruction_end|>"


def call(name: str, **arguments: str) -> dict[str, Any]:
    return {"tool_call": [{"name": name, "args": arguments}]}


def text(said: str) -> dict[str, Any]:
    return {"text_message": {"text": said}}


def write_agent(data_dir: Path) -> None:
    for name, content in FILE.findall(PAGE):
        (data_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (data_dir / name).write_text(content)


@pytest.fixture
def session_id(server: Any) -> str:
    """Return the session that the page makes, on a server that runs when the agent is written."""
    write_agent(server.data_dir)
    words = shlex.split(REQUEST.findall(PAGE)[0])
    body = json.loads(words[words.index("-d") + 1])
    made = httpx.post(
        f"{server.url}/api/v1/sessions", json=body, timeout=30, trust_env=False, verify=NO_TLS
    )
    assert made.status_code == 201, made.text
    session_id: str = made.json()["session_id"]
    return session_id


def test_the_agent_of_five_minutes_is_one(data_dir: Path) -> None:
    write_agent(data_dir)
    example = COMMAND.search(PAGE)
    assert example

    program, *arguments = shlex.split(example[1])
    command = [sys.executable, "-m", "mochi_server", "--data-dir", str(data_dir), *arguments]
    ended = run_process(command, env=os.environ, cwd=ROOT)

    assert program == "mochi-server"
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith(example[2])


def test_the_stream_is_what_a_person_sees(server: Any, session_id: str) -> None:
    shown = STREAM.search(PAGE)
    assert shown
    agent = block(
        text("1. Add the note."),
        call("add_note", text="Friday: water the plants"),
        text("I added the note."),
    )
    message = block(call("agent", agent="clerk", instruction=agent), text("It is noted."))

    answer = httpx.post(
        f"{server.url}/api/v1/chat/{session_id}/stream",
        json={"message": message},
        timeout=60,
        trust_env=False,
        verify=NO_TLS,
    )

    frames = [frame.partition("\n")[2] for frame in answer.text.split("\n\n")]
    of_agent = [frame for frame in frames if frame.startswith("event: agent_")]
    seen = CHANGING.sub("X", "\n\n".join(of_agent))
    assert seen == CHANGING.sub("X", shown[1].strip())
    assert (server.data_dir / "notes" / "notes.txt").read_text() == "Friday: water the plants\n"
