"""The record of tool calls, in one file for all workers."""

import asyncio
import json
import stat
import subprocess
import sys
import threading

import msgspec
import pytest

from tools_app import execution_log as module
from tools_app.execution_log import ExecutionLog, ToolExecution, statistics

RECORD_MANY = """
import asyncio, sys
from pathlib import Path
from tools_app import execution_log
execution_log.TRIMMED_BEYOND_BYTES = 20_000

async def main():
    log = execution_log.ExecutionLog(Path(sys.argv[1]))
    for number in range(int(sys.argv[3])):
        log.record(execution_log.ToolExecution(
            tool_name=sys.argv[2], session_id="", tool_call_id=str(number), started_at="",
            duration_ms=1, success=True,
        ))
        if number % 7 == 0:
            await log.recent(1)
    await log.aclose()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".mochi" / "executions.jsonl"


@pytest.fixture
async def log(path):
    log = ExecutionLog(path)
    yield log
    await log.aclose()


def record(path, *executions):
    """Write records as a worker would that then stops."""

    async def write():
        log = ExecutionLog(path)
        for execution in executions:
            log.record(execution)
        await log.aclose()

    asyncio.run(write())


def recent(path, **options):
    return asyncio.run(ExecutionLog(path).recent(**options))


def execution(tool="add_numbers", number=0, **values):
    return ToolExecution(
        **{
            "tool_name": tool,
            "session_id": "a1b2c3d4e5",
            "tool_call_id": f"call_{number}",
            "started_at": f"2026-01-15T10:30:{number % 60:02}.000000+00:00",
            "duration_ms": 1.5,
            "success": True,
            **values,
        }
    )


def test_before_the_first_call_there_is_nothing_and_no_file(path):
    assert recent(path) == []
    assert not path.exists()


async def test_what_was_just_recorded_comes_first(log):
    for number in range(3):
        log.record(execution(number=number))
    told = await log.recent()
    assert told == [execution(number=number) for number in (2, 1, 0)]
    assert await log.recent(limit=1) == told[:1]


async def test_recording_waits_for_nothing(log, path):
    log.record(execution())
    assert not await asyncio.to_thread(path.exists)  # the caller's next lines run first
    await log.aclose()
    assert await asyncio.to_thread(path.exists)


def test_only_the_owner_may_read_the_record(path):
    record(path, execution())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_last_hundred_are_told_of_all_workers(path):
    workers = [ExecutionLog(path) for _ in range(3)]
    for number in range(120):
        workers[number % 3].record(execution(number=number))
    for worker in workers:
        await worker.aclose()
    told = await workers[0].recent()
    assert len(told) == 100
    assert told == await workers[1].recent()


def test_lines_that_make_no_sense_are_passed_over(path):
    record(path, execution(number=1))
    with path.open("ab") as file:
        file.write(b'\n\xff\xfe\n{"tool_name": 1}\n[]\nnull\n{}\n{"tool_name": "cut off')
    record(path, execution(number=2))
    assert [one.tool_call_id for one in recent(path)] == ["call_2", "call_1"]


def test_keys_of_a_later_version_do_no_harm(path):
    record(path, execution())
    line = json.loads(path.read_bytes())
    path.write_text(json.dumps({**line, "tokens": 3}) + "\n")
    assert recent(path) == [execution()]


async def test_an_error_message_is_cut_and_always_has_utf_8(log):
    log.record(execution(success=False, error_message="x" * 499 + "\udcff" + "yz"))
    log.record(execution(success=False, error_message="\udcff"))
    short, long = await log.recent()
    assert long.error_message == "x" * 497 + "..."
    assert short.error_message == "\ufffd"


def test_a_file_that_has_grown_is_trimmed_to_the_last_hundred(path, monkeypatch):
    monkeypatch.setattr(module, "TRIMMED_BEYOND_BYTES", 30_000)
    for number in range(0, 500, 5):
        record(path, *(execution(number=number + more) for more in range(5)))
        assert path.stat().st_size <= 30_000
    told = recent(path)
    assert [one.tool_call_id for one in told] == [f"call_{n}" for n in range(499, 399, -1)]


def test_a_hundred_of_the_longest_lines_fit_into_a_trimmed_file():
    longest = execution(
        tool="x" * 300,
        tool_call_id="x" * 300,
        server="x" * 300,
        success=False,
        error_message="\0" * 500,
    )
    assert len(msgspec.json.encode(longest)) * 100 < module.TRIMMED_BEYOND_BYTES


def test_trimming_loses_no_record_that_another_process_appends(path):
    processes = [
        subprocess.Popen([sys.executable, "-c", RECORD_MANY, str(path), tool, "400"])
        for tool in ("one", "two")
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert len(lines) >= 100
    for tool in ("one", "two"):  # whatever is left of a process is the unbroken end of it
        numbers = [int(line["tool_call_id"]) for line in lines if line["tool_name"] == tool]
        assert numbers == list(range(400))[400 - len(numbers) :]


def test_a_record_that_can_not_be_written_is_logged_and_disturbs_nobody(tmp_path, caplog):
    (tmp_path / "state").write_text("a file where a directory should be")
    record(tmp_path / "state" / "executions.jsonl", execution())
    assert "1 tool calls could not be recorded" in caplog.text


def test_a_link_in_the_files_place_is_not_followed(path, tmp_path, caplog):
    path.parent.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    path.symlink_to(elsewhere)
    record(path, execution())
    assert elsewhere.read_text() == "mine"
    assert "could not be recorded" in caplog.text


async def test_a_caller_that_is_cancelled_takes_no_record_with_it(log):
    log.record(execution())
    asking = asyncio.create_task(log.recent())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await log.recent() == [execution()]


def test_statistics_are_told_tool_by_tool():
    told = statistics(
        [
            execution("b", 5, duration_ms=10.0, success=False),
            execution("b", 3, duration_ms=2.0),
            execution("a", 1, duration_ms=0.1),
            execution("b", 4, duration_ms=1.0),
        ]
    )
    assert list(told) == ["a", "b"]
    assert msgspec.to_builtins(told["b"]) == {
        "calls": 3,
        "failures": 1,
        "average_ms": 4.333,
        "slowest_ms": 10.0,
        "last_called_at": "2026-01-15T10:30:05.000000+00:00",
    }


def test_without_executions_there_are_no_statistics():
    assert statistics([]) == {}


async def test_a_disk_that_hangs_costs_the_oldest_records_not_the_memory(log, monkeypatch):
    disk = threading.Event()
    monkeypatch.setattr(log, "_append", lambda batch: disk.wait(10))
    log.record(execution())
    await asyncio.sleep(0)
    for number in range(module.MOST_WAITING + 5):
        log.record(execution(number=number))
    assert len(log._waiting) == module.MOST_WAITING
    disk.set()
