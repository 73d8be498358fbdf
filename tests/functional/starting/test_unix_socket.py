"""``--unix-socket``: a server that no other user of the machine reaches."""

import json
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow

SERVER = (sys.executable, "-m", "mochi_server", "--unix-socket", "mochi.sock", "--test-mode")
Start = Callable[..., Any]


def client_of(path: Path) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(path))
    return httpx.Client(transport=transport, base_url="http://localhost/api/v1", timeout=20)


def test_a_unix_socket_serves_its_owner_alone(start: Start, tmp_path: Path) -> None:
    server = start(*SERVER, "--workers", "2", MOCHI_TEST_WORDS_PER_SECOND="0")
    path = tmp_path / "mochi.sock"
    assert server.url == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with client_of(path) as client:
        session = client.post("/sessions", json={"model": "qwen3:14b"}).json()["session_id"]
        for _ in range(2):
            answer = client.post(f"/chat/{session}/stream", json={"message": "hello"})
            assert answer.text.count("event: done\n") == 1
        proxied = client.get("/sessions", headers={"x-forwarded-for": "203.0.113.7"})
        assert proxied.status_code == 403
        assert "MOCHI_TRUSTED_PROXIES" in proxied.json()["error"]["message"]
    server.stop(signal.SIGTERM)
    assert server.process.returncode == 0
    assert not path.exists()
    assert '"level": "error"' not in server.stderr


def test_a_server_takes_the_place_of_one_that_was_killed_and_of_no_other(
    start: Start, run: Callable[..., Any], tmp_path: Path
) -> None:
    start(*SERVER).stop(signal.SIGKILL)
    start(*SERVER)
    refused = run(SERVER)
    assert refused.returncode == 1
    assert "mochi.sock (--unix-socket, MOCHI_UNIX_SOCKET): it is in use" in refused.stderr
    with client_of(tmp_path / "mochi.sock") as client:
        assert json.loads(client.get("/health").text)["status"] == "ok"
