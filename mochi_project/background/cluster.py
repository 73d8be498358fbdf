"""Ends all processes of django-q2's cluster if one dies. Requires a configured Django.

A process that dies while waiting for a task leaves the queue between the processes locked: its
replacement waits forever, unnoticed (django-q2 issue 23). So if one dies, all are ended, and the
supervisor restarts the worker (docs/decisions/0014).
"""

import logging
import os
import time
from multiprocessing import Event
from typing import Any

from django_q.cluster import Cluster, Sentinel, get_mp_context

from mochi_project.background import stopping

logger = logging.getLogger(__name__)

_TIMED_OUT = 0
_RECYCLED = -2


class WholeSentinel(Sentinel):  # type: ignore[misc]  # django-q2 has no types
    """Replaces only processes that ended cleanly, and lets none inherit its connections."""

    def spawn_process(self, target: Any, *args: Any) -> Any:
        """Fork a process that opens its own connections."""
        release = getattr(self.broker, "release", None)
        if release is not None:
            release()
        return super().spawn_process(target, *args)

    def reincarnate(self, process: Any) -> None:
        """Replace a worker that was recycled or timed out; otherwise end all processes."""
        timer = getattr(process, "timer", None)
        if timer is None or int(timer.value) not in {_TIMED_OUT, _RECYCLED}:
            logger.error("a process of the background worker died; restarting all of it")
            logging.shutdown()
            os._exit(1)
        super().reincarnate(process)


class WholeCluster(Cluster):  # type: ignore[misc]  # django-q2 has no types
    """Runs a ``WholeSentinel``, and exits with it on a stop signal."""

    def start(self) -> int:
        """Start the processes; return when they run or have failed."""
        stopping.share()
        self.stop_event, self.start_event = Event(), Event()
        self.sentinel = get_mp_context().Process(
            target=WholeSentinel,
            args=(self.stop_event, self.start_event, self.cluster_id, self.broker, self.timeout),
        )
        self.sentinel.start()
        # Not start_event.wait(): a signal would deadlock with it, as django-q2 says.
        while not self.start_event.is_set() and self.sentinel.is_alive():
            time.sleep(0.02)
        return int(self.pid)

    def stop(self) -> bool:
        """Notify tasks and stop; return when all processes have ended."""
        stopping.begin()
        return bool(super().stop())

    def sig_handler(self, signum: int, frame: Any) -> None:  # noqa: ARG002 - django-q2's signature
        """Stop, wait for a running task, and end the process."""
        if self.sentinel is not None:
            self.stop()
        os._exit(0)
