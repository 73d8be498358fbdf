"""``mochi_server.testing``: servers for the tests of other programs, and the page about it."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpcore2  # noqa: F401 - the first client imports it, which blocks
import httpx
import httpx2
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ServerNotStarted, ToolCall, serve
from tests.functional.processes import can_fork, start_process

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/testing.md"
FILE = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```\n", re.DOTALL)


class ForkedServer(subprocess.Popen):
    """Stands in for ``subprocess.Popen``: forks servers, but for those of the page."""

    def __new__(cls, args: Sequence[str], **options: Any) -> Any:
        if can_fork(args, options.get("env") or {}):
            streams = {name: options[name] for name in ("stdin", "stdout", "stderr")}
            return start_process(args, env=options["env"], cwd=options["cwd"], **streams)
        return super().__new__(cls)


@pytest.fixture(scope="module", autouse=True)
def servers_are_forked() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", ForkedServer)
        yield


@pytest.fixture(scope="module")
def server() -> MochiServer:
    """Return one server for the tests that leave nothing behind."""
    with serve() as running:
        yield running


def ask(server: MochiServer, message: str = "Hello") -> httpx.Response:
    return httpx.post(
        f"{server.api_url}/chat",
        json={"model": MODEL, "message": message},
        timeout=30,
        trust_env=False,
    )


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    files = dict(FILE.findall(PAGE.read_text("utf-8")))
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "DJANGO_"))}

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "anyio"],
        cwd=tmp_path,
        # Nobody's configuration gets in, and no plugin but the one that is opted in to.
        env=kept | {"MOCHI_PORT": "nonsense", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    tests = {"test_answers.py", "test_streams.py", "test_settings.py", "test_unittest.py"}
    assert {"conftest.py", *tests} == set(files)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_replies_are_given_in_order_and_then_the_model_answers_by_itself(
    server: MochiServer,
) -> None:
    server.script("one", Reply("two", times=2))

    answers = [ask(server).json()["message"]["content"] for _ in range(4)]

    assert answers[:3] == ["one", "two", "two"]
    assert "lorem ipsum" in answers[3]


def test_a_reply_may_hold_reasoning_text_and_calls(server: MochiServer) -> None:
    call = ToolCall("no_such_tool", {"a": 1})
    server.script(Reply("Let me see.", reasoning="Hm.", tool_calls=[call]), "Well.")

    ask(server)
    said = server.model_requests[-1]["messages"]

    assert said[-2]["content"] == "Let me see."
    function = said[-2]["tool_calls"][0]["function"]
    assert (function["name"], function["arguments"]) == ("no_such_tool", {"a": 1})


@pytest.mark.parametrize("refusals", [1, 3])
def test_a_refusal_fails_the_turn_if_it_is_there_for_every_try(
    server: MochiServer, refusals: int
) -> None:
    server.reset()
    server.script(Reply(status=503, times=refusals), "at last")

    answer = ask(server)

    if refusals == 1:
        assert answer.json()["message"]["content"] == "at last"
    else:
        assert answer.status_code == 503
        assert server.waiting_replies == 1


def test_what_waits_and_what_was_asked_can_be_forgotten(server: MochiServer) -> None:
    server.script("one", "two")
    ask(server)

    server.reset()

    assert (server.waiting_replies, server.model_requests) == (0, [])


def test_a_reply_that_no_model_can_give_is_refused_when_it_is_scripted(server: MochiServer) -> None:
    with pytest.raises(ValueError, match="status"):
        server.script("fine", Reply(status=200))

    assert server.waiting_replies == 0


def test_one_server_serves_tests_of_many_event_loops(server: MochiServer) -> None:
    async def ask_it() -> str:
        async with httpx.AsyncClient(base_url=server.api_url, trust_env=False) as client:
            answer = await client.post("/chat", json={"model": MODEL, "message": "Hello"})
            return str(answer.json()["message"]["content"])

    server.script("first", "second")

    assert [asyncio.run(ask_it()) for _ in range(2)] == ["first", "second"]


async def test_a_client_streams_an_answer_and_leaves_where_it_likes(server: MochiServer) -> None:
    server.reset()
    server.script(Reply(["one ", "two ", "three"], stall_seconds=20, stall_after=1), "four")

    async with server.client().stream("Hello") as stream:
        async for event in stream:
            if event.name == "content_delta":
                break
    assert stream.text.startswith("one")
    numbers = [event.id.partition(":")[2] for event in stream.events]
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]


async def test_the_text_of_a_client_is_what_was_not_taken_back(server: MochiServer) -> None:
    server.reset()
    server.script(Reply(["seven, ", "I think"], ignores_format=True))
    form = {"type": "json_object"}
    async with server.client().stream("How old?", response_format=form) as stream:
        names = [event.name async for event in stream]
    assert "content_reset" in names
    assert stream.text == stream.events[-2].data["content"] == "{}"


async def test_a_client_is_told_of_a_refusal(server: MochiServer) -> None:
    with pytest.raises(httpx2.HTTPStatusError) as refused:
        async with server.client().stream("Hello", session_id="0123456789"):
            pass

    assert refused.value.response.json()["error"]["code"] == "SESSION_NOT_FOUND"


def test_servers_share_nothing_and_leave_nothing() -> None:
    with serve() as one, serve() as other:
        one.script("of the one")
        assert ask(one).json()["message"]["content"] == "of the one"
        assert "lorem" in ask(other).json()["message"]["content"]
        assert httpx.get(f"{other.api_url}/sessions", trust_env=False).json()["total"] == 1
        folders = [one.data_dir, other.data_dir]

    assert not any(folder.exists() for folder in folders)
    with pytest.raises(httpx.ConnectError):
        ask(one)


def test_a_directory_that_is_given_is_used_and_kept(tmp_path: Path) -> None:
    with serve(data_dir=tmp_path / "mine") as server:
        ask(server)

    assert list((tmp_path / "mine/chat_sessions").glob("*.json"))


def test_a_server_that_can_not_start_says_why() -> None:
    with pytest.raises(ServerNotStarted, match="MOCHI_WORKERS must be"), serve(workers=0):
        pass


def test_a_test_process_needs_nothing_of_django() -> None:
    code = "import sys, mochi_server.testing; print('django' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert ended.stdout.strip() == "False"
