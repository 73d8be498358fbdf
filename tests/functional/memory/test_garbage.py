"""No stream waits for a collection of all garbage."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (3, 14) <= sys.version_info < (3, 14, 5), reason="Python collects in small steps by itself"
    ),
]

TURNS = 500
"""Their objects are enough for Python's default thresholds to run full collections."""
CLIENTS = 4


def test_hundreds_of_turns_begin_without_a_collection_of_all_garbage(
    probed: Callable[..., Any], script: Callable[..., str]
) -> None:
    server, probe = probed()
    endless = script(["a ", "b "], stall_after=1, stall_seconds=120)
    before = probe.full_collections()

    def begin(chat: Any) -> None:
        for _ in range(TURNS // CLIENTS):
            with chat.stream(chat.new_session(), message=endless, detached=True) as events:
                next(event for event in events if event.name == "content_delta")

    with ThreadPoolExecutor(CLIENTS) as pool:
        for begun in [pool.submit(begin, server.chat()) for _ in range(CLIENTS)]:
            begun.result()
    assert probe.full_collections() == before
