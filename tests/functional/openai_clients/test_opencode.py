"""opencode does a whole task over Responses, with the AI SDK's provider inside it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mochi_server.testing import MODEL, Reply, ToolCall, serve
from tests.functional.openai_clients.relay import relay

pytestmark = pytest.mark.interop

QUIET = {
    "OPENCODE_PURE": "1",
    **{f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "DEFAULT_PLUGINS")},
    **{f"OPENCODE_DISABLE_{name}": "1" for name in ("LSP_DOWNLOAD", "MODELS_FETCH")},
}
"""Nothing is fetched from anywhere."""


def settings(url: str) -> str:
    model = {"name": MODEL, "tool_call": True, "limit": {"context": 40960, "output": 4096}}
    options = {"baseURL": f"{url}/v1", "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai", "options": options, "models": {MODEL: model}}
    return json.dumps(
        {
            "model": f"mochi/{MODEL}",
            "share": "disabled",
            "permission": "allow",
            "agent": {"title": {"disable": True}},
            "provider": {"mochi": provider},
        }
    )


def test_it_edits_a_file(
    client_program: Callable[[str], str], environment: dict[str, str], tmp_path: Path
) -> None:
    client_program("node")  # and what npm has installed
    program = str(tmp_path / "node_modules" / ".bin" / "opencode")
    made = tmp_path / "made.txt"
    home = tmp_path / "home"
    home.mkdir()
    kinds = ("CACHE", "CONFIG", "DATA", "STATE")
    folders = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in kinds}
    folders |= {"HOME": str(home), "OPENCODE_CONFIG": str(tmp_path / "opencode.json")}
    with serve() as server, relay(server.url) as (url, passed):
        (tmp_path / "opencode.json").write_text(settings(url))
        call = ToolCall("write", {"filePath": str(made), "content": "hello\n"})
        server.script(Reply(reasoning="Hm", tool_calls=[call]), "I have made it.")
        ended = subprocess.run(
            [program, "run", "-m", f"mochi/{MODEL}", "Make a file."],
            env=environment | QUIET | folders,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    assert "I have made it." in ended.stdout, ended.stderr
    assert made.read_text() == "hello\n"
    assert [(each.path, each.status) for each in passed] == [("/v1/responses", 200)] * 2
