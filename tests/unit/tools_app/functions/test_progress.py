"""A function says how far it is, to whoever waits for it."""

import os
import threading
import time

import pytest

from mochi_server.tools import progress
from tools_app.functions.progress import MAX_MESSAGE_CHARS
from tools_app.toolset import ToolProgress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time, which stands still."""
    now = [1.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("arguments", "report"),
    [
        (("Reading",), ToolProgress(message="Reading")),
        ((None, 0.5), ToolProgress(progress=0.5, total=1.0)),
        (("Half", 0.5), ToolProgress(progress=0.5, total=1.0, message="Half")),
        ((None, 7), ToolProgress(progress=1.0, total=1.0)),
        ((None, float("nan")), ToolProgress(progress=0.0, total=1.0)),
        (("x" * 5000,), ToolProgress(message="x" * MAX_MESSAGE_CHARS)),
        (("a\ud800",), ToolProgress(message="a\ufffd")),
        ((), ToolProgress()),
    ],
)
def test_a_message_and_a_fraction_are_passed_on(
    arguments: tuple[object, ...], report: ToolProgress
) -> None:
    reports: list[ToolProgress] = []

    with progress.reported_to(reports.append):
        progress(*arguments)  # type: ignore[arg-type]

    assert reports == [report]


def test_many_reports_at_once_are_one(clock: list[float]) -> None:
    reports: list[ToolProgress] = []

    with progress.reported_to(reports.append):
        progress("first")
        progress("at once")
        clock[0] += 1
        progress("later")

    assert [report.message for report in reports] == ["first", "later"]


def test_a_thread_reports_while_the_call_runs_and_not_after_it() -> None:
    reports: list[ToolProgress] = []
    ended = threading.Event()

    def outlive() -> None:
        progress("within")
        within.set()
        ended.wait()
        progress("after")

    within, thread = threading.Event(), threading.Thread(target=outlive)
    with progress.reported_to(reports.append):
        thread.start()
        within.wait()
    ended.set()
    thread.join()

    assert [report.message for report in reports] == ["within"]


def test_outside_of_a_call_nothing_happens() -> None:
    progress("nobody listens", 0.5)


def test_a_process_that_a_function_forks_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[ToolProgress] = []

    with progress.reported_to(reports.append):
        monkeypatch.setattr(os, "getpid", lambda: -1)
        progress("a child")

    assert reports == []
