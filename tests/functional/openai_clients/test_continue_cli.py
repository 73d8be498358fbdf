"""Continue's command line (``cn``), which takes Ollama's address and speaks OpenAI's protocol."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.functional.absent import skip_without
from tests.functional.conftest import MODEL, Server, block
from tests.functional.openai_clients.conftest import CLIENTS

pytestmark = pytest.mark.interop

PROGRAM = CLIENTS / "node_modules" / "@continuedev" / "cli" / "dist" / "cn.js"


def test_continue_answers_by_the_address_of_ollama(
    server: Server,
    client_program: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    if not PROGRAM.exists():
        skip_without(str(PROGRAM), "(tests/functional/openai_clients/install)")
    model = {
        "name": "mochi",
        "provider": "ollama",
        "apiBase": f"{server.url}/ollama/",
        "model": MODEL,
        "roles": ["chat"],
    }
    config = tmp_path / "config.yaml"  # JSON is YAML
    config.write_text(json.dumps({"name": "test", "version": "1.0.0", "schema": "v1"} | {
        "models": [model]
    }))  # fmt: skip
    asked = block({"text_message": {"text": "Good morning."}})
    ended = subprocess.run(
        [client_program("node"), PROGRAM, "--config", config, "-p", asked],
        env=environment | {"HOME": str(tmp_path), "CONTINUE_TELEMETRY_ENABLED": "0", "CI": "1"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.stdout.strip() == "Good morning.", ended.stderr
