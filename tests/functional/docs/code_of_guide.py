"""The code in docs/front-end.md as files, and how to run it."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
API = "http://localhost:8000"
PARSER = "eventsource-parser"

WriteFiles = Callable[[str], Path]


def run(folder: Path, *command: str) -> str:
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
