"""Clients of OpenAI's protocol that nobody here wrote, against a real server.

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
from tests.functional.dialects.completions import listed_at_ollama

pytestmark = pytest.mark.interop

HERE = Path(__file__).parent
SKILL = f"---\ndescription: Takes notes.\nmodel: {MODEL}\n---\nYou take notes.\n"
NOTE = 'def note(text: str) -> str:\n    """Write a line down."""\n    return f"noted {text}"\n'
ADD = '__all__ = ["add"]\n\n\ndef add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n'


@pytest.fixture(scope="module")
def server(start_once: Any) -> Any:
    """Return a server with a tool and an agent."""
    server = start_once()
    tools, agent = server.data_dir / "tools", server.data_dir / "agents" / "scribe"
    for folder in (tools, agent):
        folder.mkdir(parents=True)
    (tools / "sums.py").write_text(ADD)
    (agent / "SKILL.md").write_text(SKILL)
    (agent / "scribe.py").write_text(NOTE)
    (agent / "__init__.py").write_text('from .scribe import note\n\n__all__ = ["note"]\n')
    listed_at_ollama(server, MODEL, "agent:scribe")
    return server


@pytest.mark.parametrize(
    "program",
    [
        "openai_chat.mjs",
        "openai_responses.mjs",
        "ai_sdk_chat.mjs",
        "ai_sdk_responses.mjs",
        "ai_sdk_use_chat.mjs",
        "ag_ui.mjs",
        "langchain_checks.py",
        "llm_checks.py",
        "ollama_chat.mjs",
        "ollama_checks.py",
    ],
)
def test_a_client_does_what_its_users_do_with_it(
    server: Any,
    client_program: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Path,
    program: str,
) -> None:
    interpreter = client_program("node" if program.endswith(".mjs") else "python")
    for file in [*HERE.glob("*.mjs"), HERE / "checks.py", HERE / program]:
        shutil.copy(file, tmp_path)
    ended = subprocess.run(
        [interpreter, program, f"{server.url}/v1"],
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
