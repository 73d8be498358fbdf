"""Processes see each other's calls, and not those of the dead."""

import subprocess
import sys
from decimal import Decimal

import pytest

from usage_app.budgets.running_calls import RunningCall, RunningCalls

PROCESS = """
import sys
from pathlib import Path
from usage_app.budgets.running_calls import RunningCall, RunningCalls

calls = RunningCalls(Path(sys.argv[1]))
with calls.locked():
    call = RunningCall(call_id="theirs", owner=calls.mine(), provider="openai", model="m")
    calls.write([*calls.read(), call])
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def calls(tmp_path):
    calls = RunningCalls(tmp_path / "budgets")
    yield calls
    calls.close()


def ids(calls):
    return [call.call_id for call in calls.read()]


def test_calls_come_back_as_they_were_written(calls):
    call = RunningCall(
        call_id="a",
        owner=calls.mine(),
        provider="openai",
        model="m",
        tokens=7,
        cost_usd=Decimal("0.10"),
    )
    calls.write([call])

    assert calls.read() == [call]


def test_the_calls_of_another_process_count_as_long_as_it_lives(calls, tmp_path):
    calls.write([RunningCall(call_id="ours", owner=calls.mine(), provider="openai", model="m")])
    other = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(tmp_path / "budgets")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "written\n"
    assert ids(calls) == ["ours", "theirs"]

    other.kill()
    other.communicate()

    assert ids(calls) == ["ours"]


def test_a_file_that_makes_no_sense_is_as_none(calls, tmp_path):
    assert ids(calls) == []
    calls.write([])
    (tmp_path / "budgets" / "running.json").write_text("[{")
    assert ids(calls) == []
