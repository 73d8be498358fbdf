"""``mochi-server backup`` beside a running server."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.conftest import block

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "mochi_server", "--data-dir", "data")
SLOWLY = block("ready", " and on" * 1000, words_per_second=20)


def test_a_running_turn_is_backed_up_as_far_as_it_came(
    start: Callable[..., Any], run: Callable[..., Any], tmp_path: Path
) -> None:
    server = start(*COMMAND, "--test-mode", "--port", "0", MOCHI_SHUTDOWN_GRACE_SECONDS="0")
    with httpx.stream(
        "POST",
        f"{server.url}/api/v1/chat/stream",
        json={"model": "qwen3:14b", "message": SLOWLY},
        trust_env=False,
    ) as answer:
        lines = answer.iter_lines()
        while "ready" not in next(lines):
            pass
        backed_up = run([*COMMAND, "backup", "backup"])
        refused = run([*COMMAND, "restore", "backup", "--overwrite"])
        assert httpx.get(f"{server.url}/api/v1/health", trust_env=False).status_code == 200

    assert backed_up.returncode == 0, backed_up.stderr
    (file,) = (tmp_path / "backup" / "chat_sessions").iterdir()
    question, partial = json.loads(file.read_text())["messages"]
    assert question["content"] == SLOWLY
    assert partial["content"].startswith("ready")
    assert partial["interrupted"] is True
    assert refused.returncode == 1
    assert f"session {file.stem} is being answered. Stop the server first" in refused.stderr
