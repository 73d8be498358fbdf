"""What the server keeps of a large session: nothing but an answer that nobody reads."""

import json
import ssl
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

SESSION_ID = "aaaaaaaaaa"
MIB = 1 << 20
SIZE = 12 * MIB
READERS = 4
TIME = "2026-11-21T10:00:00.000000+00:00"
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


ONLY_GLIBC = pytest.mark.skipif(
    sys.platform != "linux", reason="only glibc can be asked to give memory back"
)


@ONLY_GLIBC
@pytest.mark.parametrize("messages", [1, 768])
def test_a_slow_reader_costs_no_more_than_its_answer(
    start: Callable[..., Any], model_url: str, messages: int
) -> None:
    server = start(MOCHI_OLLAMA_HOST=model_url)
    write_session(server.data_dir / "chat_sessions" / f"{SESSION_ID}.json", messages)
    server.chat().http.get("/sessions").raise_for_status()  # what the first request takes for good
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss

    url = f"{server.url}/api/v1/sessions/{SESSION_ID}/messages"
    with httpx.stream("GET", url, verify=NO_TLS, trust_env=False) as answer:
        assert answer.status_code == 200
        assert int(answer.headers["content-length"]) > SIZE
        assert process.memory_info().rss - before < 1.4 * SIZE  # the making took three times it


@ONLY_GLIBC
def test_a_large_session_that_was_read_leaves_nothing_behind(
    start: Callable[..., Any], model_url: str
) -> None:
    server = start(MOCHI_OLLAMA_HOST=model_url)
    write_session(server.data_dir / "chat_sessions" / f"{SESSION_ID}.json", 1)
    server.chat().http.get("/sessions").raise_for_status()  # what the first request takes for good
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss

    def read(chat: Any) -> None:
        chat.http.get(f"/sessions/{SESSION_ID}/status").raise_for_status()

    with ThreadPoolExecutor(READERS) as pool:
        for answered in [pool.submit(read, server.chat()) for _ in range(READERS)]:
            answered.result()
    assert process.memory_info().rss - before < SIZE  # each thread had its own before, up to twice


def write_session(path: Path, messages: int, text: str = "") -> None:
    metadata = {
        "session_id": path.stem,
        "model": "qwen3:14b",
        "created_at": TIME,
        "updated_at": TIME,
        "message_count": messages,
        "format_version": "1.3",
    }
    text = text or "x" * (SIZE // messages)
    told = [
        {"role": "user", "content": text, "message_id": f"{number:010x}", "timestamp": TIME}
        for number in range(messages)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"metadata": metadata, "messages": told}))
