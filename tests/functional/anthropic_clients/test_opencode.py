"""opencode edits a file, through the AI SDK's provider for Anthropic."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.functional.absent import skip_without
from tests.functional.conftest import MODEL
from tests.functional.openai_clients.conftest import CLIENTS

pytestmark = pytest.mark.interop


def test_opencode_edits_a_file(server: Any, environment: Mapping[str, str], tmp_path: Path) -> None:
    program = CLIENTS / "node_modules" / ".bin" / "opencode"
    if not program.exists():
        skip_without(str(program), "(tests/functional/openai_clients/install)")
    file = tmp_path / "a.txt"
    file.write_text("one two\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "opencode.json").write_text(json.dumps(settings(f"{server.url}/v1")))
    answers: list[dict[str, Any]] = [
        called("read", filePath=str(file)),
        called("edit", filePath=str(file), oldString="two", newString="2"),
        {"text_message": {"text": "Done."}},
    ]
    # It puts quotes around a prompt that has spaces.
    script = json.dumps({"messages": answers, "per_request": True}, separators=(",", ":"))

    ended = subprocess.run(
        [program, "run", f"<|instruction_start|>{script}<|instruction_end|>"],
        env={
            **environment,
            "HOME": str(tmp_path / "home"),
            "OPENCODE_CONFIG": str(tmp_path / "opencode.json"),
            "PATH": f"{CLIENTS / 'node' / 'bin'}:{environment['PATH']}",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
        },
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert "Done." in ended.stdout, ended.stderr
    assert file.read_text() == "one 2\n"


def called(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_call": [{"name": name, "args": arguments}]}


def settings(url: str) -> dict[str, Any]:
    model = {"name": MODEL, "tool_call": True, "limit": {"context": 40960, "output": 4096}}
    provider = {
        "npm": "@ai-sdk/anthropic",
        "options": {"baseURL": url, "apiKey": "none"},
        "models": {MODEL: model},
    }
    return {
        "model": f"mochi/{MODEL}",
        "small_model": f"mochi/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
        "provider": {"mochi": provider},
    }
