"""Claude Code, as ``claude -p`` runs it, against a real server with scripted models."""

import json
import struct
import subprocess
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from mochi_server.testing import MODEL, MochiServer
from scripted_app.thread import ScriptedModelThread
from tests.functional.absent import skip_without
from tests.functional.conftest import NO_TLS, StartServer, block
from tests.functional.openai_clients.conftest import CLIENTS

pytestmark = pytest.mark.interop

Claude = Callable[..., str]


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Any:
    """Return a server whose models show their requests, and that logs its own."""
    model = ScriptedModelThread()
    url = model.start()
    started = start_once(
        MOCHI_TEST_MODEL_URL=url,
        MOCHI_ACCESS_LOG="true",
        MOCHI_MODEL_ALIASES=f"claude-*={MODEL}",
        MOCHI_CLIENT_SESSIONS="claude-code",
    )
    yield MochiServer(started.url, started.data_dir, model, started.log)
    model.stop()


@pytest.fixture
def claude(server: MochiServer, environment: Mapping[str, str], tmp_path: Path) -> Claude:
    """Return how to run a prompt in an empty folder; the result is what Claude Code says."""
    program = CLIENTS / "node_modules" / ".bin" / "claude"
    if not program.exists():
        skip_without(str(program), "(tests/functional/openai_clients/install)")
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    variables = {
        "HOME": str(tmp_path / "home"),
        "PATH": f"{CLIENTS / 'node' / 'bin'}:{environment['PATH']}",
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_AUTH_TOKEN": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "40960",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    kept = {k: v for k, v in environment.items() if not k.startswith(("ANTHROPIC", "CLAUDE"))}

    def run(prompt: str, *flags: str, model: str = MODEL, **more: Any) -> str:
        ended = subprocess.run(
            [program, "-p", "--model", model, "--permission-mode", "acceptEdits", *flags],
            input=prompt,
            env={**kept, **variables, **more},
            cwd=tmp_path / "work",
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return ended.stdout + ended.stderr

    return run


def rounds(*entries: Any) -> str:
    return block(*entries, per_request=True)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_call": [{"name": name, "args": arguments}]}


def statuses(server: MochiServer, path: str = "/v1/messages") -> list[int]:
    """Return the statuses of all requests for a path so far."""
    lines = [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]
    return [line["status"] for line in lines if line.get("path") == path]


def offered(request: Mapping[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in request.get("tools") or ()}


@pytest.mark.parametrize("thinks", [True, False])
def test_it_reads_edits_and_writes_files(
    claude: Claude, tmp_path: Path, server: MochiServer, thinks: bool
) -> None:
    server.reset()
    read, written = tmp_path / "work" / "a.txt", tmp_path / "work" / "b.txt"
    read.write_text("one two three\n")
    edit = call("Edit", file_path=str(read), old_string="two", new_string="2")
    script = rounds(
        call("Read", file_path=str(read)),
        edit,
        call("Write", file_path=str(written), content="hello\n"),
        "All done.",
    )

    said = claude(script, MAX_THINKING_TOKENS="8000" if thinks else "0")

    assert "All done." in said
    assert (read.read_text(), written.read_text()) == ("one 2 three\n", "hello\n")
    assert all(bool(request.get("think")) is thinks for request in server.model_requests)


def test_a_subagent_answers_its_agent_and_each_has_a_session(
    claude: Claude, server: MochiServer
) -> None:
    server.reset()
    sessions = len(listed(server))
    prompt = rounds("The answer is forty-two.")
    script = rounds(
        call("Agent", description="look", prompt=prompt, subagent_type="general-purpose"),
        "It said so.",
    )

    claude(script, CLAUDE_CODE_DISABLE_BACKGROUND_TASKS="1")

    texts = json.dumps(server.model_requests)
    assert "forty-two" in texts
    assert len(listed(server)) == sessions + 2


def listed(server: MochiServer, path: str = "", name: str = "sessions") -> list[Any]:
    url = f"{server.api_url}/sessions{path}"
    return list(httpx.get(url, trust_env=False, verify=NO_TLS, timeout=30).json()[name])


def test_a_conversation_that_goes_on_and_compacts_is_saved_once(
    claude: Claude, server: MochiServer, tmp_path: Path
) -> None:
    server.reset()
    known = {session["session_id"] for session in listed(server)}
    (tmp_path / "work" / "a.txt").write_text("one\n")
    script = rounds(call("Read", file_path=str(tmp_path / "work" / "a.txt")), "Read.")
    claude(script)
    for words in ("Go on.", "Go on.", "/compact", "Go on."):
        claude(words, "--continue")

    [session] = [each for each in listed(server) if each["session_id"] not in known]
    messages: list[Any] = []
    deadline = time.monotonic() + 60
    while len(messages) < 12:
        assert time.monotonic() < deadline, messages
        messages = listed(server, f"/{session['session_id']}/messages", "messages")
    texts = [message["content"] for message in messages if message["role"] == "user"]
    first, again, once_more, compact, last = texts
    assert (first, again, once_more) == (script, "Go on.", "Go on.")
    assert "summary" in compact
    assert last.startswith("<command-name>/compact</command-name>")
    assert last.endswith("\n\nGo on.")
    assert [message["content"] for message in messages if message["role"] == "tool"] == [
        "1\tone\n2\t"
    ]


def test_it_counts_the_context_and_compacts_a_conversation(
    claude: Claude, server: MochiServer
) -> None:
    before = len(statuses(server, "/v1/messages/count_tokens"))
    assert "Context Usage" in claude("/context")
    assert set(statuses(server, "/v1/messages/count_tokens")[before:]) == {200}

    claude(block("Good morning."))
    claude("/compact", "--continue")
    assert "Still here." in claude(block("Still here."), "--continue")


def test_a_deferred_tool_is_found_and_its_search_is_refused(
    claude: Claude, server: MochiServer
) -> None:
    server.reset()
    script = rounds(
        call("ToolSearch", query="select:WebSearch"),
        call("WebSearch", query="weather"),
        "So be it.",
    )

    said = claude(script, "--allowedTools", "WebSearch,ToolSearch")

    first, *_, last = [request for request in server.model_requests if offered(request)]
    assert "WebSearch" not in offered(first)
    assert "WebSearch" in offered(last)
    assert "Tool WebSearch can be called now." in json.dumps(last)
    assert "web_search is not available on this server" in json.dumps(last)
    assert "So be it." in said


def test_an_image_reaches_the_model(claude: Claude, server: MochiServer, tmp_path: Path) -> None:
    server.reset()
    image = tmp_path / "work" / "red.png"
    image.write_bytes(png())

    said = claude(rounds(call("Read", file_path=str(image)), "Red."), model="scripted-vision")

    assert "Red." in said
    assert any(message.get("images") for message in server.model_requests[-1]["messages"])


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + b"\xff\0\0" * 8 for _ in range(8))
    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("prompt", "options", "answers", "words"),
    [
        (block("x", status=400), {}, [502], "API Error: 502"),
        (block("x", status=503), {}, [503, 503], "API Error"),
        ("word " * 60_000, {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "200000"}, [400], "too long"),
        ("Hello!", {"model": "nope:1b"}, [404, 404], "issue with the selected model"),
    ],
    ids=["failed", "busy", "too long", "unknown model"],
)
def test_each_error_makes_as_many_requests_as_it_should(
    claude: Claude,
    server: MochiServer,
    prompt: str,
    options: dict[str, Any],
    answers: list[int],
    words: str,
) -> None:
    before = len(statuses(server))

    said = claude(prompt, **options)

    assert words in said
    assert statuses(server)[before:] == answers


def test_an_answer_that_breaks_off_is_gone_on_with(claude: Claude, server: MochiServer) -> None:
    server.reset()
    before = len(statuses(server))

    claude(block(["One ", "two"], error_line=1))

    answers = statuses(server)[before:]
    assert set(answers) == {200}
    assert 2 <= len(answers) <= 4
    assert "cut off mid-stream" in json.dumps(server.model_requests[-1])
