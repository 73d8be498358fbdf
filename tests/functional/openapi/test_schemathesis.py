"""Schemathesis holds the server to its OpenAPI document: valid, broken and linked requests.

What it finds wrong and is right stands in ``explained.py``, with the reason. The systematic phase
(each limit of each field) sends thousands of requests, and another draws them by chance; `.ci/run`
runs both. More cases, by hand::

    MOCHI_E2E_SCHEMATHESIS_EXAMPLES=200 MOCHI_E2E_SCHEMATHESIS_SEED=1 \
        uv run pytest tests/functional/openapi -m "soak or not soak"

With ``MOCHI_E2E_SCHEMATHESIS_CODES=1`` each error must have a code that its operation declares.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.processes import run_process

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
HOOKS = "tests.functional.openapi.explained"
REPLACED = "positive_data_acceptance,ensure_resource_availability,allow_header_conformance"
"""The checks that those of the hooks replace."""
SEED = os.environ.get("MOCHI_E2E_SCHEMATHESIS_SEED", "20261122")
TOKEN = "of-who-runs-it"
BEARER = f"Bearer {TOKEN}"
SLOW_PHASES = ("fuzzing", "coverage")
EXAMPLES = os.environ.get("MOCHI_E2E_SCHEMATHESIS_EXAMPLES", "4")


@pytest.mark.parametrize(
    "phases",
    ["examples,stateful", *(pytest.param(each, marks=pytest.mark.soak) for each in SLOW_PHASES)],
)
@pytest.mark.timeout(600)
def test_the_server_does_what_its_openapi_document_says(
    phases: str, start: Callable[..., Any], tmp_path: Path
) -> None:
    server = start(MOCHI_API_TOKEN=TOKEN)  # the first key that is made closes the open door
    seed(server)
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run"),
            f"{server.url}/api/v1/openapi.json",
            *("--phases", phases, "--checks", "all", "--exclude-checks", REPLACED),
            *("--exclude-operation-id", "follow_changes"),  # which never ends
            *("--seed", SEED, "--max-examples", EXAMPLES, "--generation-database", "none"),
            *("--header", f"Authorization: {BEARER}"),
            *("--continue-on-failure", "--request-timeout", "10"),
            *("--suppress-health-check", "all", "--warnings", "off", "--no-color"),
        ],
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
            "SCHEMATHESIS_HOOKS": HOOKS,
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout[-20_000:] + answer.stderr[-2_000:]
    assert "Selected: 0/" not in answer.stdout
    assert server.process.poll() is None
    log = server.log.read_text()
    assert "Traceback" not in log, log[-5_000:]


def seed(server: Any) -> None:
    """Make what requests can be about: tools, agents, sessions with turns, a prompt, a profile."""
    init = [sys.executable, "-m", "mochi_server", "init", str(server.data_dir)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert run_process(init, cwd=server.data_dir, env=environment).returncode == 0
    chat = server.chat(headers={"Authorization": BEARER})
    for _ in range(3):
        chat.say(chat.new_session(), "Hello!")
    prompt = {"filename": "brief.md", "content": "You are a helpful assistant."}
    made(chat.http.post("/system-prompts", json=prompt))
    profile = {"name": "work", "provider": "ollama", "model": "qwen3:14b"}
    made(chat.http.post("/profiles", json=profile))


def made(answer: httpx.Response) -> None:
    assert answer.status_code == 201, answer.text
