"""A response outlives its connection and its server, for npm's unchanged package, too."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.conftest import MODEL, NO_TLS, block

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
SLOW = block(["One ", "two ", "three"], stall_after=2, stall_seconds=600)


def test_a_stream_whose_server_was_killed_goes_on_with_another_worker(
    start: Any,
    client_program: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    node = client_program("node")
    for name in ("checks.mjs", "openai_resume.mjs"):
        shutil.copy(HERE / name, tmp_path)

    def run(server: Any, *arguments: str) -> dict[str, Any]:
        ended = subprocess.run(
            [node, "openai_resume.mjs", f"{server.url}/v1", *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    server = start("--workers", "2")
    begun = run(server)
    thread = begin_run(server)
    server.kill()
    again = start("--workers", "2")
    assert what_is_left(again, thread) == ["user", "assistant: One two"]
    rest = run(again, begun["id"], str(begun["last"]))

    assert rest["numbers"] == [*range(begun["last"] + 1, begun["last"] + 1 + len(rest["numbers"]))]
    assert rest["end"] == f"response.{rest['status']}"
    session = again.session_file(begun["id"].removeprefix("resp_")[:10])
    said = session["messages"][-1]["content"]
    assert (begun["text"] + rest["text"]).strip() == rest["output"].strip() == said == "One two"


def begin_run(server: Any) -> str:
    """Begin a run of AG-UI, and leave once it has said something; return its thread."""
    body = {
        "threadId": "before-the-kill",
        "runId": "1",
        "messages": [{"id": "u", "role": "user", "content": SLOW}],
        "forwardedProps": {"model": MODEL},
    }
    with http_to(server) as http, http.stream("POST", "/agui", json=body) as answer:
        text = ""
        for line in answer.iter_lines():
            if line.startswith("data: "):
                text += json.loads(line.removeprefix("data: ")).get("delta", "")
            if text == "One two":
                return "before-the-kill"
    raise AssertionError(text)


def what_is_left(server: Any, thread: str) -> list[str]:
    """Return what a thread of AG-UI shows, whose name is the client's."""
    with http_to(server) as http:
        frames = http.get(f"/agui/{thread}").text.split("\n\n")
    begin, shown, end = (json.loads(frame.removeprefix("data: ")) for frame in frames if frame)
    assert (begin["type"], end["type"]) == ("RUN_STARTED", "RUN_FINISHED")
    asking, answer = shown["messages"]
    assert answer["metadata"]["interrupted"]
    return [asking["role"], f"{answer['role']}: {answer['content']}"]


def http_to(server: Any) -> httpx.Client:
    """Return a client for paths below ``/api/v1``."""
    url = f"{server.url}/api/v1"
    return httpx.Client(base_url=url, trust_env=False, verify=NO_TLS, timeout=60)
