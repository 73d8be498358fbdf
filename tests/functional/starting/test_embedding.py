"""``create_app`` in programs: mounted in other applications, in tests, in many event loops."""

import re
import signal
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.starting.test_library import warm_python
from tests.functional.starting.test_other_ways import serving

pytestmark = pytest.mark.slow

Start = Callable[..., Any]
Run = Callable[..., Any]

ROOT = Path(__file__).parents[3]
FRAMEWORKS = dict(
    re.findall(
        r"<!-- mounted: (\w+) -->\n```python\n(.*?)```\n",
        (ROOT / "docs/embedding.md").read_text("utf-8"),
        re.DOTALL,
    )
)
TEST_MODE = {"MOCHI_TEST_MODE": "true", "MOCHI_TEST_WORDS_PER_SECOND": "0"}


@pytest.mark.parametrize("framework", ["starlette", "fastapi"])
def test_the_server_can_be_mounted_below_a_path_of_another_application(
    start: Start, tmp_path: Path, framework: str
) -> None:
    pytest.importorskip(framework)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    code = FRAMEWORKS[framework].replace('data_dir="./my_data"', "")
    command = serving(code + "\nserve(app)")
    server = start(*command, forks_code=True, **TEST_MODE, TMPDIR=str(temporary))

    assert server.get("/mochi/api/v1/health").json()["test_mode"] is True
    page = server.get("/mochi/api/v1/docs").text
    assets = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert assets
    assert all(server.get(asset).status_code == 200 for asset in assets)
    schema = re.search(r'"url": "([^"]+)"', page)
    assert schema
    assert "/mochi/api/v1/sessions" in server.get(schema[1]).json()["paths"]
    said = httpx.post(
        f"{server.url}/mochi/api/v1/chat/stream",
        json={"model": "qwen3:14b", "message": "Hi"},
        timeout=30,
        trust_env=False,
    )
    assert "event: done" in said.text

    server.stop(signal.SIGTERM)

    assert list(temporary.iterdir()) == []  # `running()` has closed everything


LOOPS = """
import asyncio, httpx
from mochi_server import create_app

app = create_app(test_mode=True, test_words_per_second=0, background_worker=False)

async def ask(message, session_id=None):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        where = f"/{session_id}" if session_id else ""
        body = {"message": message} if session_id else {"message": message, "model": "qwen3:14b"}
        answer = await client.post(f"/api/v1/chat{where}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["session_id"]
"""


def test_test_mode_outlives_the_event_loop_that_started_it(run: Run) -> None:
    code = LOOPS + textwrap.dedent(
        """
        session = asyncio.run(ask("one"))
        print([asyncio.run(ask("more", session)) == session for _ in range(2)])
        """
    )
    assert warm_python(run, code) == "[True, True]"


def test_a_turn_that_its_event_loop_left_behind_is_ended(run: Run) -> None:
    code = LOOPS + textwrap.dedent(
        """
        async def leave_in_the_middle():
            session = await ask("one")
            stall = '<|instruction_start|>{"stall_seconds": 600}<|instruction_end|>'
            turn = asyncio.create_task(ask(stall, session))
            from chat.registry import TurnRegistry
            from mochi_project.app import current_pool
            while current_pool().of("default").get(TurnRegistry).get(session) is None:
                await asyncio.sleep(0.01)
            return session

        session = asyncio.run(leave_in_the_middle())
        more = '<|instruction_start|>{"words_per_second": 0}<|instruction_end|>'
        print(asyncio.run(ask(more, session)) == session)
        """
    )
    assert warm_python(run, code) == "True"


def test_two_event_loops_at_once_are_refused_in_a_sentence(run: Run) -> None:
    code = LOOPS + textwrap.dedent(
        """
        async def ask_twice():
            await ask("one")
            try:
                await asyncio.to_thread(lambda: asyncio.run(ask("two")))
            except RuntimeError as error:
                print(error)
            await ask("three")

        asyncio.run(ask_twice())
        """
    )
    assert warm_python(run, code) == (
        "this application runs in another event loop; a process can serve it in one"
    )
