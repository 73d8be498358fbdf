"""The log of tool calls in a file: its lines, its size, who may read it."""

import json
import subprocess
import sys

import msgspec
import pytest

from tests.unit.tools_app.executions import execution
from tools_app.storage.files.call_log import MOST_BYTES, FileCallLog

APPEND_MANY = """
import sys
from pathlib import Path
from tools_app.storage.call_log import ToolExecution
from tools_app.storage.files.call_log import FileCallLog

log = FileCallLog(Path(sys.argv[1]), most_bytes=20_000)
for number in range(int(sys.argv[3])):
    log.append([ToolExecution(
        tool_name=sys.argv[2], session_id="", tool_call_id=str(number), started_at="",
        duration_ms=1, success=True,
    )])
    if number % 7 == 0:
        log.newest(1, "default")
log.close()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".mochi" / "executions.jsonl"


def append(path, *executions):
    """Append records as a process would that then ends."""
    log = FileCallLog(path)
    log.append(executions)
    log.close()


def newest(path):
    return FileCallLog(path).newest(100, "default")


def test_lines_that_make_no_sense_are_passed_over(path):
    append(path, execution(number=1))
    with path.open("ab") as file:
        file.write(b'\n\xff\xfe\n{"tool_name": 1}\n[]\nnull\n{}\n{"tool_name": "cut off')
    append(path, execution(number=2))
    assert [one.tool_call_id for one in newest(path)] == ["call_2", "call_1"]


def test_keys_of_a_later_version_do_no_harm(path):
    append(path, execution())
    line = json.loads(path.read_bytes())
    path.write_text(json.dumps({**line, "tokens": 3}) + "\n")
    assert newest(path) == [execution()]


def test_a_log_that_has_grown_keeps_the_last_hundred(path):
    log = FileCallLog(path, most_bytes=30_000)
    for number in range(0, 500, 5):
        log.append([execution(number=number + more) for more in range(5)])
    files = list(path.parent.iterdir())
    assert sum(file.stat().st_size for file in files) < 2 * 30_000
    assert [one.tool_call_id for one in newest(path)] == [f"call_{n}" for n in range(499, 399, -1)]


def test_a_file_of_an_earlier_release_is_read_and_continued(path):
    path.parent.mkdir()
    old = [execution(number=number) for number in range(3)]
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in old))
    log = FileCallLog(path, most_bytes=1_000)
    log.append([execution(number=3)])
    assert [json.loads(line)["tool_call_id"] for line in path.read_bytes().splitlines()] == [
        f"call_{number}" for number in range(4)
    ]
    log.append([execution(number=number) for number in (4, 5)])
    assert [one.tool_call_id for one in newest(path)] == [f"call_{n}" for n in range(5, -1, -1)]


def test_a_hundred_of_the_longest_lines_fit_into_a_trimmed_file():
    longest = execution(
        tool="x" * 300,
        tool_call_id="x" * 300,
        server="x" * 300,
        success=False,
        error_message="\0" * 500,
    )
    assert len(msgspec.json.encode(longest)) * 100 < MOST_BYTES


def test_a_second_file_loses_no_record_that_another_process_appends(path):
    processes = [
        subprocess.Popen([sys.executable, "-c", APPEND_MANY, str(path), tool, "400"])
        for tool in ("one", "two")
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    calls = FileCallLog(path).newest(1000, "default")
    assert len(calls) >= 100
    for tool in ("one", "two"):  # whatever is left of a process is the unbroken end of it
        numbers = [int(call.tool_call_id) for call in calls if call.tool_name == tool]
        assert numbers == list(range(400))[: -len(numbers) - 1 : -1]
