"""What every log of tool calls does, whatever it is kept in."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from cluster_app.redis.call_log import RedisCallLog
from tools_app.storage.call_log import KEPT, CallLog, ToolExecution
from tools_app.storage.files.call_log import FileCallLog


@pytest.fixture(params=[FileCallLog, RedisCallLog])
def logs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sequence[CallLog]]:
    """Return logs in the same place, as three processes have them."""
    place: object = tmp_path / "state" / "calls"
    if request.param is RedisCallLog:
        place = request.getfixturevalue("redis_connection")
    opened: list[CallLog] = [request.param(place) for _ in range(3)]
    yield opened
    for log in opened:
        log.close()


def call(number: int) -> ToolExecution:
    return ToolExecution(
        tool_name="add_numbers",
        session_id="a1b2c3d4e5",
        tool_call_id=f"call_{number}",
        started_at="2026-01-15T10:30:00.000000+00:00",
        duration_ms=1.5,
        success=number % 2 == 0,
        error_code=None if number % 2 == 0 else "TOOL_EXECUTION_FAILED",
    )


def test_a_log_is_empty_at_first(logs: Sequence[CallLog]) -> None:
    assert list(logs[0].newest(KEPT, "default")) == []


def test_the_newest_calls_come_first_and_no_more_than_asked_for(logs: Sequence[CallLog]) -> None:
    logs[0].append([call(0), call(1)])
    logs[0].append([call(2)])

    assert list(logs[0].newest(2, "default")) == [call(2), call(1)]
    assert list(logs[0].newest(KEPT, "default")) == [call(2), call(1), call(0)]


def test_the_last_hundred_calls_of_all_processes_are_kept(logs: Sequence[CallLog]) -> None:
    for number in range(KEPT + 20):
        logs[number % 3].append([call(number)])

    expected = [call(number) for number in range(KEPT + 19, 19, -1)]
    assert all(list(log.newest(KEPT, "default")) == expected for log in logs)


def test_a_closed_log_can_be_used_again(logs: Sequence[CallLog]) -> None:
    logs[0].append([call(0)])
    logs[0].close()

    logs[0].append([call(1)])

    assert list(logs[0].newest(KEPT, "default")) == [call(1), call(0)]


def test_an_owner_has_his_own_records(logs):
    logs[0].append([call(0), msgspec.structs.replace(call(1), owner="anna"), call(2)])

    assert list(logs[-1].newest(KEPT, "anna")) == [msgspec.structs.replace(call(1), owner="anna")]
    assert list(logs[-1].newest(1, "default")) == [call(2)]
    assert list(logs[-1].newest(KEPT, "bob")) == []
