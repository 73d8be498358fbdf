"""A response outlives its connection and its server, for npm's unchanged package, too."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def test_a_stream_whose_server_was_killed_goes_on_with_another_worker(
    start: Any,
    client_program: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    node = client_program("node")
    for name in ("checks.mjs", "openai_resume.mjs"):
        shutil.copy(HERE / name, tmp_path)

    def run(server: Any, *arguments: str) -> dict[str, Any]:
        ended = subprocess.run(
            [node, "openai_resume.mjs", f"{server.url}/v1", *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    server = start("--workers", "2")
    begun = run(server)
    server.kill()
    again = start("--workers", "2")
    rest = run(again, begun["id"], str(begun["last"]))

    assert rest["numbers"] == [*range(begun["last"] + 1, begun["last"] + 1 + len(rest["numbers"]))]
    assert rest["end"] == f"response.{rest['status']}"
    session = again.session_file(begun["id"].removeprefix("resp_")[:10])
    said = session["messages"][-1]["content"]
    assert (begun["text"] + rest["text"]).strip() == rest["output"].strip() == said == "One two"
