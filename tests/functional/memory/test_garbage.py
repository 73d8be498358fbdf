"""No stream waits for a collection of all garbage, and a server that is idle makes up for it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mochi_project.memory.garbage_collection import IS_INCREMENTAL

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_INCREMENTAL, reason="Python collects in small steps by itself"),
]

TURNS = 500
"""Their objects are enough for Python's default thresholds to run full collections."""
CLIENTS = 4
IDLE_SECONDS = 30


def test_all_garbage_is_collected_only_while_no_turn_runs(
    probed: Callable[..., Any], script: Callable[..., str]
) -> None:
    server, probe = probed()
    endless = script(["a ", "b "], stall_after=1, stall_seconds=120)
    before = probe.full_collections()

    def begin(chat: Any) -> list[str]:
        sessions = []
        for _ in range(TURNS // CLIENTS):
            sessions.append(chat.new_session())
            with chat.stream(sessions[-1], message=endless, detached=True) as events:
                next(event for event in events if event.name == "content_delta")
        return sessions

    with ThreadPoolExecutor(CLIENTS) as pool:
        begun = list(pool.map(begin, [server.chat() for _ in range(CLIENTS)]))
    assert probe.full_collections() == before

    chat = server.chat()
    for session_id in [each for sessions in begun for each in sessions]:
        assert chat.cancel(session_id).status_code == 200
    deadline = time.monotonic() + IDLE_SECONDS
    while probe.full_collections() == before:
        assert time.monotonic() < deadline, "an idle server leaves its garbage"
        time.sleep(0.1)
