"""The process that looks after web processes, with workers that die at once."""

import itertools
import os
import signal
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from mochi_project.configuration.loading import MochiSettings
from mochi_project.process import web_workers
from mochi_project.process.server import server_config
from mochi_project.process.web_workers import (
    HEALTHY_SECONDS,
    PooledServer,
    RestartPauses,
    WebProcessPool,
)


def test_each_pause_is_twice_as_long_up_to_half_a_minute() -> None:
    pauses = RestartPauses()
    assert [pauses.after(0) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_a_worker_that_lived_long_is_replaced_soon() -> None:
    pauses = RestartPauses()
    for _ in range(8):
        pauses.after(1)
    assert [pauses.after(HEALTHY_SECONDS), pauses.after(1)] == [0.5, 1]


def test_a_worker_that_dies_again_and_again_is_restarted_after_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web_workers, "SHORTEST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(web_workers, "LONGEST_PAUSE_SECONDS", 0.05)
    starts: list[float] = []
    announced: list[int] = []
    ends: list[socket.socket] = []

    class DyingWorker:
        def __init__(self, _: Any, pauses: RestartPauses, *, number: int) -> None:
            self.lifeline, theirs = socket.socketpair()
            ends.append(theirs)
            self.listens, self.pauses = False, pauses
            self.started = time.monotonic()
            self.process = SimpleNamespace(
                pid=len(starts) + 100,
                returncode=1,
                wait=lambda: 1,
                send_signal=lambda _: theirs.close(),
            )
            starts.append(self.started)
            theirs.send(web_workers.LISTENING)
            if len(starts) == 5:
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                theirs.shutdown(socket.SHUT_WR)

    monkeypatch.setattr(web_workers, "_WebProcess", DyingWorker)
    dead: list[int] = []
    pool = WebProcessPool(
        1, [], on_listening=lambda: announced.append(1), grace_seconds=5, on_death=dead.append
    )

    assert pool.run() == 0
    for end in ends:
        end.close()
    gaps = [later - sooner for sooner, later in itertools.pairwise(starts)]
    assert len(gaps) == 4
    assert all(gap >= pause for gap, pause in zip(gaps, [0.02, 0.04, 0.05, 0.05], strict=True))
    assert announced == [1]
    assert dead == [100, 101, 102, 103, 104]


def test_only_the_first_workers_stop_the_server_if_they_can_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web_workers, "SHORTEST_PAUSE_SECONDS", 0.01)
    ends: list[socket.socket] = []
    unable: set[int] = set()

    class Worker:
        def __init__(self, _: Any, pauses: RestartPauses, *, number: int) -> None:
            self.lifeline, theirs = socket.socketpair()
            ends.append(theirs)
            self.listens, self.pauses = False, pauses
            self.started = time.monotonic()
            self.process = SimpleNamespace(
                pid=number, returncode=1, wait=lambda: 1, send_signal=lambda _: theirs.close()
            )
            if number not in unable:
                theirs.send(web_workers.LISTENING)
            if number == 0 or number in unable:
                theirs.shutdown(socket.SHUT_WR)
            if number == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(web_workers, "_WebProcess", Worker)

    def run() -> int:
        return WebProcessPool(1, [], on_listening=lambda: None, grace_seconds=5).run()

    unable |= {1, 2, 3}
    replaced = run()
    first = len(ends)
    unable.add(0)
    refused = run()

    for end in ends:
        end.close()
    assert (replaced, first) == (0, 5)
    assert (refused, len(ends) - first) == (1, 1)


def test_a_second_signal_leaves_a_web_process_its_way_to_end() -> None:
    server = PooledServer(server_config(MochiSettings()), on_listening=lambda: None)

    server.handle_exit(signal.SIGTERM, None)
    server.handle_exit(signal.SIGINT, None)

    assert server.should_exit
    assert not server.force_exit  # or the application would not be shut down
