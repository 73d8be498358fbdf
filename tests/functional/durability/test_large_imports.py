"""Exports of a gigabyte are taken in with little memory, and no slower the more there are.

The default is a quarter of that; for all of it::

    MOCHI_E2E_IMPORT_BYTES=1000000000 uv run pytest tests/functional/durability -m soak -k large
"""

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[3]
SIZE = int(os.environ.get("MOCHI_E2E_IMPORT_BYTES", "250000000"))
MOST_MEMORY = 200 << 20
TEXT = "hello world, a longer text of a message. " * 40

pytestmark = pytest.mark.soak


def write_chats(path: Path, *, size: int) -> int:
    """Write conversations of 60 messages as ChatGPT does; return how many."""
    nodes = {
        str(number): {
            "id": str(number),
            "parent": str(number - 1),
            "message": {
                "author": {"role": "user" if number % 2 else "assistant"},
                "create_time": 1763800000.5,
                "content": {"content_type": "text", "parts": [f'{TEXT} ü "{number}"']},
                "recipient": "all",
                "metadata": {},
            },
        }
        for number in range(1, 61)
    }
    rest = json.dumps({"current_node": "60", "default_model_slug": "m", "mapping": nodes}).encode()
    number = 0
    with path.open("wb") as file:
        file.write(b"[")
        while file.tell() < size:
            number += 1
            file.write(b",\n" if number > 1 else b"")
            file.write(b'{"id": "%d", "title": "Chat %d", ' % (number, number) + rest[1:])
        file.write(b"]")
    return number


@pytest.mark.timeout(900)
def test_a_large_export_is_taken_in_with_little_memory(tmp_path: Path) -> None:
    number = write_chats(tmp_path / "large.json", size=SIZE)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
    command = (sys.executable, "-m", "mochi_server", "sessions", "import", "--json")
    most = 0
    with (tmp_path / "report.json").open("wb") as output:
        process = psutil.Popen(
            [*command, str(tmp_path / "large.json")],
            env={**environment, "PYTHONPATH": str(ROOT), "MOCHI_DATA_DIR": str(tmp_path)},
            cwd=tmp_path,
            stdout=output,
        )
        while process.poll() is None:
            try:
                most = max(most, process.memory_info().rss)
                process.wait(timeout=0.05)
            except (psutil.NoSuchProcess, psutil.TimeoutExpired):
                continue
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert (report["imported"], report["broken"]) == (number, 0)
    assert len(list((tmp_path / "chat_sessions").glob("*.json"))) == number
    assert 0 < most < MOST_MEMORY
