"""Clients of Anthropic's protocol that nobody here wrote, against a real server.

Each program beside this file runs a list of checks with one client and prints how each went.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.conftest import MODEL

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
CHECKS = HERE.parent / "openai_clients"


@pytest.fixture(scope="module")
def server(start_once: Any) -> Any:
    return start_once(MOCHI_MODEL_ALIASES=f"claude-*={MODEL}")


@pytest.mark.parametrize(
    ("interpreter", "program"),
    [
        ("python", "anthropic_checks.py"),
        ("python", "chat_anthropic_checks.py"),
        ("llm_anthropic/python", "llm_anthropic_checks.py"),
        ("node", "anthropic_messages.mjs"),
        ("node", "ai_sdk_anthropic.mjs"),
    ],
)
def test_a_client_does_what_its_users_do_with_it(
    server: Any,
    client_program: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Path,
    interpreter: str,
    program: str,
) -> None:
    for file in (CHECKS / "checks.mjs", CHECKS / "checks.py", HERE / program):
        shutil.copy(file, tmp_path)
    ended = subprocess.run(
        [client_program(interpreter), program, server.url],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    checks = [json.loads(line) for line in ended.stdout.splitlines()]
    failed = [f"{check['name']}\n{check['error']}" for check in checks if check["error"]]
    assert not failed, "\n\n".join(failed)
    assert (ended.returncode, bool(checks)) == (0, True), ended.stderr
