"""The record of tool calls: written in the background, without holding up a call."""

import asyncio
import threading

import pytest

from tests.unit.tools_app.executions import execution
from tools_app import execution_log as module
from tools_app.execution_log import ExecutionLog, statistics
from tools_app.storage.files.call_log import FileCallLog


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".mochi" / "executions.jsonl"


@pytest.fixture
async def log(path):
    log = ExecutionLog(FileCallLog(path))
    yield log
    await log.aclose()


def record(path, *executions):
    """Write records as a process would that then ends."""

    async def write():
        log = ExecutionLog(FileCallLog(path))
        for each in executions:
            log.record(each)
        await log.aclose()

    asyncio.run(write())


def recent(path, **options):
    return asyncio.run(ExecutionLog(FileCallLog(path)).recent(**options))


def test_before_the_first_call_there_is_nothing_and_no_file(path):
    assert recent(path) == []
    assert not path.exists()


async def test_what_was_just_recorded_comes_first(log):
    for number in range(3):
        log.record(execution(number=number))
    told = await log.recent()
    assert told == [execution(number=number) for number in (2, 1, 0)]
    assert await log.recent(limit=1) == told[:1]


async def test_an_error_message_is_cut_and_always_has_utf_8(log):
    log.record(execution(success=False, error_message="x" * 499 + "\udcff" + "yz"))
    log.record(execution(success=False, error_message="\udcff"))
    short, long = await log.recent()
    assert long.error_message == "x" * 497 + "..."
    assert short.error_message == "\ufffd"


def test_a_record_that_can_not_be_written_is_logged_and_disturbs_nobody(tmp_path, caplog):
    (tmp_path / "state").write_text("a file where a directory should be")
    record(tmp_path / "state" / "executions.jsonl", execution())
    assert "1 tool calls could not be recorded" in caplog.text


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
    assert told["b"].model_dump() == {
        "calls": 3,
        "failures": 1,
        "average_ms": 4.333,
        "slowest_ms": 10.0,
        "last_called_at": "2026-01-15T10:30:05.000000+00:00",
    }


def test_without_executions_there_are_no_statistics():
    assert statistics([]) == {}


class HungDisk:
    """A log whose writes wait for the disk."""

    def __init__(self):
        self.goes_on = threading.Event()
        self.written = []

    def append(self, executions):
        self.goes_on.wait()
        self.written += executions

    def newest(self, limit, owner):
        return self.written[-limit:][::-1]

    def close(self):
        pass


async def test_recording_waits_for_nothing():
    disk = HungDisk()
    log = ExecutionLog(disk)

    log.record(execution())
    await asyncio.sleep(0)
    assert disk.written == []

    disk.goes_on.set()
    await log.aclose()
    assert len(disk.written) == 1


async def test_a_disk_that_hangs_costs_the_oldest_records_not_the_memory():
    disk = HungDisk()
    log = ExecutionLog(disk)
    log.record(execution())
    await asyncio.sleep(0)
    for number in range(module.MOST_WAITING + 5):
        log.record(execution(number=number))

    disk.goes_on.set()
    await log.aclose()

    lost_first = [one.tool_call_id for one in disk.written[:2]]
    assert len(disk.written) == 1 + module.MOST_WAITING
    assert lost_first == ["call_0", "call_5"]
