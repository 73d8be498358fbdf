"""Files that other processes change are noticed, however fast they change."""

import os
import queue
import threading
import time
import weakref

import pytest

from chat.storage.files import watcher
from chat.storage.files.watcher import PathWatcher

SECONDS = 30
QUIET = 0.3


@pytest.fixture
def changes(tmp_path):
    """Watch a directory; return the queue that hears of its changes."""
    heard = queue.Queue()
    stop = PathWatcher().watch(tmp_path, lambda: heard.put(None))
    heard.get(timeout=SECONDS)  # once at the beginning
    yield heard
    stop()


def drain(heard):
    """Wait until nothing has been heard for a while."""
    try:
        while True:
            heard.get(timeout=QUIET)
    except queue.Empty:
        return


def test_a_change_is_heard_and_silence_is_silence(changes, tmp_path):
    drain(changes)
    (tmp_path / "a").touch()
    changes.get(timeout=SECONDS)
    drain(changes)


def test_a_second_change_within_the_same_tick_of_the_clock_is_heard(changes, tmp_path, monkeypatch):
    drain(changes)
    monkeypatch.setattr(watcher, "TICK_NANOSECONDS", 60_000_000_000)  # as a coarse clock has it
    now = time.time_ns()
    (tmp_path / "a").touch()
    os.utime(tmp_path, ns=(now, now))
    changes.get(timeout=SECONDS)
    (tmp_path / "a").rename(tmp_path / "b")
    os.utime(tmp_path, ns=(now, now))
    while not changes.empty():
        changes.get()
    changes.get(timeout=SECONDS)


def test_nothing_is_heard_after_the_watching_stopped(tmp_path):
    heard = queue.Queue()
    stop = PathWatcher().watch(tmp_path, lambda: heard.put(None))
    heard.get(timeout=SECONDS)
    drain(heard)
    stop()
    (tmp_path / "a").touch()
    with pytest.raises(queue.Empty):
        heard.get(timeout=QUIET)


def test_a_listener_whose_loop_is_closed_does_not_deafen_the_others(tmp_path):
    def gone():
        raise RuntimeError("Event loop is closed")

    watcher, heard = PathWatcher(), queue.Queue()
    stops = [watcher.watch(tmp_path, gone), watcher.watch(tmp_path, lambda: heard.put(None))]
    heard.get(timeout=SECONDS)
    drain(heard)
    (tmp_path / "a").touch()
    heard.get(timeout=SECONDS)
    for stop in stops:
        stop()


def test_a_listener_that_fails_is_logged_and_does_not_deafen_the_others(tmp_path, caplog):
    def fail():
        raise KeyError("defect")

    watcher, heard = PathWatcher(), queue.Queue()
    stops = [watcher.watch(tmp_path, fail), watcher.watch(tmp_path, lambda: heard.put(None))]
    heard.get(timeout=SECONDS)
    drain(heard)
    (tmp_path / "a").touch()
    heard.get(timeout=SECONDS)
    for stop in stops:
        stop()
    assert "KeyError: 'defect'" in caplog.text


def test_who_stopped_watching_is_let_go_of(tmp_path):
    heard = threading.Event()
    stop = PathWatcher().watch(tmp_path, heard.set)
    assert heard.wait(60)
    listener = weakref.ref(heard)
    stop()
    del heard, stop

    deadline = time.monotonic() + 60
    while listener() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
