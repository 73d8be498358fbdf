"""The code in docs/clients.md runs as it stands, with the clients that it names."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.interop

GUIDE = Path(__file__).parents[3] / "docs" / "clients.md"
BLOCK = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
PROGRAMS = dict(BLOCK.findall(GUIDE.read_text("utf-8")))
COMMAND = re.compile(r"`(llm -m mochi .*?) \"Good morning\"`")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_clients_few_lines_get_an_answer(
    server: Any,
    client_program: Callable[[str], str],
    environment: dict[str, str],
    tmp_path: Path,
    name: str,
) -> None:
    code = PROGRAMS[name].replace("http://localhost:8000", server.url)
    (tmp_path / name).write_text(code)
    if name.endswith(".yaml"):
        found = COMMAND.search(GUIDE.read_text("utf-8"))
        assert found
        program, *arguments = found[1].split()
        command = [client_program(program), *arguments, "Good morning"]
    else:
        command = [client_program("node" if name.endswith(".mjs") else "python"), name]
    ended = subprocess.run(
        command,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.rstrip().endswith("Good morning")


def test_the_guide_has_code_for_each_client_that_runs_here() -> None:
    assert len(PROGRAMS) == 10
