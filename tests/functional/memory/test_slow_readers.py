"""Somebody who asks for a long answer and does not read it."""

import json
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

SESSION_ID = "aaaaaaaaaa"
MIB = 1 << 20
SIZE = 12 * MIB
TIME = "2026-11-21T10:00:00.000000+00:00"
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be asked to give memory back")
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


def write_session(path: Path, messages: int) -> None:
    metadata = {
        "session_id": SESSION_ID,
        "model": "qwen3:14b",
        "created_at": TIME,
        "updated_at": TIME,
        "message_count": messages,
        "format_version": "1.3",
    }
    text = "x" * (SIZE // messages)
    told = [
        {"role": "user", "content": text, "message_id": f"{number:010x}", "timestamp": TIME}
        for number in range(messages)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"metadata": metadata, "messages": told}))
