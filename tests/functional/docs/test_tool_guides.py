"""The examples in docs/tools.md and docs/tool-policies.md do what they say."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from httpx_sse import connect_sse

from mochi_project.management.example_data import copy_examples
from tests.functional.conftest import NO_TLS
from tests.functional.processes import run_process

ROOT = Path(__file__).parents[3]
TOOLS = (ROOT / "docs/tools.md").read_text()
POLICIES = (ROOT / "docs/tool-policies.md").read_text()
FILE = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```\n", re.DOTALL)
COMMAND = re.compile(r"<!-- example: command -->\n```sh\n(.*?)```\n\n```\n(.*?)```\n", re.DOTALL)
STREAM = re.compile(r"<!-- output: stream -->\n```\n(.*?)```\n", re.DOTALL)
SESSION_ID = "be560667fb"
CONFIRMATION_ID = "conf_6f1ed002ab5595859014ebf0951522d9"
ID = re.compile(r"conf_[0-9a-f]{32}|call_[0-9a-f]{8}|[0-9a-f]{20}|20\d\d-[^\"]+\+00:00")


class Request(NamedTuple):
    """A request as curl makes it."""

    path: str
    body: Any

    def send(self, server: Any, **ids: str) -> httpx.Response:
        return httpx.post(**self.to(server, **ids), timeout=30, trust_env=False, verify=NO_TLS)

    def to(self, server: Any, *, session: str = "", confirmation: str = "") -> dict[str, Any]:
        text = json.dumps(self.body).replace(CONFIRMATION_ID, confirmation)
        return {
            "url": server.url + self.path.replace(SESSION_ID, session),
            "json": json.loads(text),
        }


def requests(page: str, marker: str) -> list[Request]:
    blocks = re.findall(rf"<!-- example: {marker} -->\n```sh\n(.*?)```\n", page, re.DOTALL)
    return [request(block) for block in blocks]


def request(block: str) -> Request:
    words = shlex.split(block.replace("\\\n", ""))
    (url,) = (word for word in words if word.startswith("localhost"))
    body = json.loads(words[words.index("-d") + 1]) if "-d" in words else {}
    return Request("/" + url.partition("/")[2], body)


def write_files(data_dir: Path, *names: str) -> None:
    for name, code in FILE.findall(TOOLS):
        if name in names:
            (data_dir / name).parent.mkdir(exist_ok=True)
            (data_dir / name).write_text(code)


def mochi(
    data_dir: Path, *arguments: str, env: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mochi_server", "--data-dir", str(data_dir), *arguments]
    return run_process(command, env=env, cwd=ROOT)


@pytest.fixture(scope="module")
def examples(server: Any) -> Any:
    """Return a server with the example tools, which it notices while it runs."""
    copy_examples(server.data_dir)
    return server


@pytest.fixture
def session_id(examples: Any) -> str:
    return requests(POLICIES, "ask")[0].send(examples).json()["session_id"]


def test_the_tool_of_two_minutes_runs_by_hand(data_dir: Path) -> None:
    write_files(data_dir, "tools/dates.py")
    example = COMMAND.search(TOOLS)
    assert example

    program, *arguments = shlex.split(example[1])
    ended = mochi(data_dir, *arguments)

    assert program == "mochi-server"
    assert (ended.returncode, ended.stdout) == (0, example[2]), ended.stderr


def test_both_ways_to_lay_the_folder_out_are_understood(data_dir: Path) -> None:
    for names, group in (
        (["tools/dates.py"], "dates"),
        (["tools/dates.py", "tools/__init__.py"], "planning"),
    ):
        write_files(data_dir, *names)
        listing = json.loads(mochi(data_dir, "tools", "list", "--json").stdout)
        assert listing["groups"][group] == ["days_between"]
        assert listing["groups"].keys() == {group, "recall"}
        assert listing["invalid"] == []
        assert listing["tools"]["days_between"]["destructive"] is False


def test_what_a_file_needs_is_told_with_the_command_that_has_it(data_dir: Path) -> None:
    write_files(data_dir, "tools/pages.py")
    shown = re.search(r"<!-- output: check -->\n```\n(.*?)```", TOOLS, re.DOTALL)
    assert shown
    environment = {**os.environ, "UV": "/usr/bin/uv", "UV_RUN_RECURSION_DEPTH": "1"}

    ended = mochi(data_dir, "tools", "check", env=environment)

    assert ended.returncode == 1
    assert shown[1] in ended.stdout


def test_a_tool_that_takes_a_while_reports_how_far_it_is(data_dir: Path) -> None:
    write_files(data_dir, "tools/words.py")
    data_dir.joinpath("book.txt").write_text("One two.")

    ended = mochi(data_dir, "tools", "run", "count_words", "--arguments", '{"folder": "."}')

    assert ended.stdout == "2 words in 1 files\n", ended.stderr
    assert "0% Reading book.txt\n" in ended.stderr


def test_the_tool_of_two_minutes_can_be_offered(examples: Any) -> None:
    make, ask = requests(TOOLS, "request")

    made = make.send(examples)
    asked = ask.send(examples, session=made.json()["session_id"])

    assert made.status_code == 201, made.text
    assert made.json()["tool_settings"]["tools"] == ["days_between"]
    assert asked.status_code == 200, asked.text


@pytest.mark.parametrize(
    ("marker", "position", "result"), [("ask", 2, "3.0"), ("edit", 0, "6.0"), ("remember", 0, "3.0")]
)
def test_the_stream_asks_waits_and_goes_on(
    examples: Any, session_id: str, marker: str, position: int, result: str
) -> None:
    shown = STREAM.search(POLICIES)
    assert shown
    call = requests(POLICIES, "ask")[1].to(examples, session=session_id)
    events = []
    with (
        httpx.Client(timeout=30, trust_env=False, verify=NO_TLS) as client,
        connect_sse(client, "POST", call["url"], json=call["json"]) as source,
    ):
        for event in source.iter_sse():
            if not event.data:
                continue
            events.append(event)
            if event.event == "status":
                answer = requests(POLICIES, marker)[position].send(
                    examples,
                    session=session_id,
                    confirmation=events[-2].json()["confirmation_id"],
                )
                assert answer.status_code == 200, answer.text

    frames = [f"id: {e.id}\nevent: {e.event}\ndata: {e.data}\n" for e in events[1:3]]
    assert ID.sub("ID", "\n".join(frames)) == ID.sub("ID", shown[1])
    (told,) = (event.json() for event in events if event.event == "tool_result")
    assert told["result"] == result
    assert "tool_call" not in [event.event for event in events]
    assert events[-1].event == "done"


def test_without_a_stream_the_turn_ends_and_is_resumed(examples: Any, session_id: str) -> None:
    scripted = requests(POLICIES, "ask")[1]
    path = scripted.path.removesuffix("/stream")
    suspended = Request(path, scripted.body).send(examples, session=session_id)
    (asked,) = suspended.json()["pending_confirmations"]
    again = requests(POLICIES, "resume")[0].send(examples, session=session_id)
    requests(POLICIES, "ask")[2].send(
        examples, session=session_id, confirmation=asked["confirmation_id"]
    )
    resumed = requests(POLICIES, "resume")[0].send(examples, session=session_id)

    assert suspended.status_code == again.status_code == 202
    assert resumed.status_code == 200, resumed.text
    assert resumed.json()["message"]["content"] == "That makes three."
    assert resumed.json()["tool_calls_executed"][0]["result"] == "3.0"
